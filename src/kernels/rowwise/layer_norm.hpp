// Layer normalisation of rows, y = x + residual:
//
//   out = (y - mean) / sqrt(variance + epsilon) * weight + bias
//
// Mean and variance come from chunks that stay in the first-level cache, each read twice: for its mean, and for the
// squares of its deviations from that mean as rounded to a float. The sum of the same deviations, which would be zero
// but for that rounding, corrects both (Chan, Golub and LeVeque 1983, "corrected two-pass"), and chunks are merged in
// float64 by the same paper's rule. So a mean that is large beside the deviations costs nothing: y - mean is exact
// there, and the part of the mean that a float cannot hold is subtracted after it. In rows that are all but constant,
// deviations are so few steps of the last bit that their sums are exact too. A row of up to one chunk is fetched from
// memory once, a longer one twice.
//
// Rows whose squares leave the range of float32 go again times a power of two that brings them back, which changes no bit of
// the result: rowwise/layer_norm_again.hpp.
#pragma once

#include "kernels/rowwise/layer_norm_problem.hpp"
#include "kernels/rowwise/row_pass.hpp"
#include "kernels/rowwise/widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t norm_chunk = 2048;  // floats: 16 kB with a residual

// y = x, or x + residual.
template <bool has_residual>
struct NormInput {
  const float *x;
  const float *residual;

  NormInput(const void *row_x, const void *row_residual)
      : x(static_cast<const float *>(row_x)), residual(static_cast<const float *>(row_residual)) {}

  FOVEA_INLINE Float at(int64_t i) const {
    if constexpr (has_residual) return load(x + i) + load(residual + i);
    return load(x + i);
  }
  FOVEA_INLINE Float first_at(int64_t i, int64_t count) const {
    if constexpr (has_residual) return load_partial(x + i, count) + load_partial(residual + i, count);
    return load_partial(x + i, count);
  }
  // level: of the caches, 1 or 2.
  template <int level>
  FOVEA_INLINE void prefetch(int64_t i) const {
    __builtin_prefetch(x + i, 0, 4 - level);
    if constexpr (has_residual) __builtin_prefetch(residual + i, 0, 4 - level);
  }
};

// How rows pass: how results are stored, and which rows are asked for ahead, by so many floats. Those whose turn comes soon
// go to the first-level cache while a row is written; those whose turn comes later to the second-level one while squares
// are summed, when memory has nothing else to do. The ways to the first-level cache are few: where stores need them to
// fetch what they write to, rows from memory are left to the second-level one.
struct CachedPass : CachedStore {
  static constexpr int64_t soon = 1024, later = 0;
};
struct MemoryPass : CachedStore {
  static constexpr int64_t soon = 0, later = 1024;
};
struct StreamedPass : StreamedStore {
  static constexpr int64_t soon = 1024, later = 2560;
};

// Of elements seen so far: how many, their mean, and the sum of their squared deviations from it.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  void merge(const Moments &more) {
    const double total = count + more.count;
    const double apart = more.mean - mean;
    mean += apart * (more.count / total);
    squares += more.squares + apart * apart * (count * more.count / total);
    count = total;
  }
};

template <class Input>
FOVEA_INLINE float chunk_sum(const Input &y, int64_t begin, int64_t end) {
  Float sum[4] = {zero(), zero(), zero(), zero()};
  int64_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    unroll<4>([&](auto v) FOVEA_INLINE_BODY { sum[v] = sum[v] + y.at(i + v * lanes); });
  }
  for (; i + lanes <= end; i += lanes) sum[0] = sum[0] + y.at(i);
  if (i < end) sum[1] = sum[1] + y.first_at(i, end - i);
  return horizontal_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// ask(i): asks for the line of a later row that begins with i.
template <class Input, class Ask>
FOVEA_INLINE Moments chunk_moments(const Input &y, int64_t begin, int64_t end, float all, const Ask &ask) {
  const auto count = static_cast<double>(end - begin);
  const double share = 1.0 / count;  // long done when the sum is
  const auto pivot = static_cast<float>(static_cast<double>(all) * share);
  Float sum[4] = {zero(), zero(), zero(), zero()};
  Float squares[4] = {zero(), zero(), zero(), zero()};
  const auto add = [&](auto v, const Float &deviation) FOVEA_INLINE_BODY {
    sum[v] = sum[v] + deviation;
    squares[v] = multiply_add(deviation, deviation, squares[v]);
  };
  int64_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    unroll<4>([&](auto v) FOVEA_INLINE_BODY { add(v, y.at(i + v * lanes) - splat(pivot)); });
    for (int64_t line = 0; line < 4 * lanes; line += line_floats) ask(i + line);
  }
  for (; i + lanes <= end; i += lanes) add(Index<0>{}, y.at(i) - splat(pivot));
  if (i < end) add(Index<1>{}, choose(lanes_below(end - i), y.first_at(i, end - i) - splat(pivot), zero()));
  const double left = horizontal_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
  const double all_squares = horizontal_sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  return {count, static_cast<double>(pivot) + left * share, all_squares - left * left * share};
}

template <class Input, class Ask>
FOVEA_INLINE Moments row_moments(const Input &y, int64_t dim, const Ask &ask) {
  const auto chunk = [&](int64_t begin) FOVEA_INLINE_BODY {
    const int64_t end = min_of(dim, begin + norm_chunk);
    return chunk_moments(y, begin, end, chunk_sum(y, begin, end), ask);
  };
  Moments moments = chunk(0);
  for (int64_t begin = norm_chunk; begin < dim; begin += norm_chunk) moments.merge(chunk(begin));
  return moments;
}

// ((y - mean) * scale + shift) * weight + bias, shift being what the mean's rounding left.
struct Normalisation {
  Float mean, scale, shift;
  const float *weight, *bias;

  FOVEA_INLINE Normalisation(const Moments &moments, double spread, const float *weights, const float *biases)
      : weight(weights), bias(biases) {
    const double exact_scale = 1.0 / __builtin_sqrt(spread);
    const auto rounded_mean = static_cast<float>(moments.mean);
    mean = splat(rounded_mean);
    scale = splat(static_cast<float>(exact_scale));
    shift = splat(static_cast<float>((static_cast<double>(rounded_mean) - moments.mean) * exact_scale));
  }

  FOVEA_INLINE bool has_both() const { return weight != nullptr && bias != nullptr; }

  // has_both: known to have a weight and a bias.
  template <bool has_both = false>
  FOVEA_INLINE Float at(const Float &y, int64_t i) const {
    Float value = multiply_add(y - mean, scale, shift);
    if (has_both || weight != nullptr) value = value * load(weight + i);
    return has_both || bias != nullptr ? value + load(bias + i) : value;
  }
  FOVEA_INLINE Float first_at(const Float &y, int64_t i, int64_t count) const {
    Float value = multiply_add(y - mean, scale, shift);
    if (weight != nullptr) value = value * load_partial(weight + i, count);
    return bias == nullptr ? value : value + load_partial(bias + i, count);
  }
};

// Stores are aligned but for the row's first and last few. `soon`: the row whose turn comes soon.
template <class Input, class Pass>
FOVEA_INLINE void put_row(const Input &y, const Normalisation &normalise, float *out, int64_t dim, const Input &soon,
                          const Pass &pass) {
  constexpr int64_t step = lanes < line_floats ? line_floats : lanes;
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(float) % lanes);
  int64_t i = past == 0 ? 0 : min_of(lanes - past, dim);
  if (i > 0) store_partial(out, normalise.first_at(y.first_at(0, i), 0, i), i);
  const auto put_lines = [&](auto has_both) FOVEA_INLINE_BODY {
    for (; i + step <= dim; i += step) {
      if constexpr (Pass::soon > 0) soon.template prefetch<1>(i);
      unroll<step / lanes>([&](auto v) FOVEA_INLINE_BODY {
        pass(out + i + v * lanes, normalise.template at<has_both != 0>(y.at(i + v * lanes), i + v * lanes));
      });
    }
  };
  normalise.has_both() ? put_lines(Index<1>{}) : put_lines(Index<0>{});
  for (; i + lanes <= dim; i += lanes) pass(out + i, normalise.at(y.at(i), i));
  if (i < dim) store_partial(out + i, normalise.first_at(y.first_at(i, dim - i), i, dim - i), dim - i);
}

FOVEA_NOINLINE void norm_row_again(const NormRow &row, const NormRows &rows, double spread);

// Squares of deviations are neither denormal, or near it, nor infinite nor NaN.
FOVEA_INLINE bool fits_floats(double spread) { return spread > 0x1p-90 && spread < __builtin_inf(); }

template <bool has_residual, class Pass>
FOVEA_NOINLINE void norm_rows_with(const NormRows &rows) {
  const Pass pass;
  const int64_t soon = ceil_div(Pass::soon, rows.dim), later = ceil_div(Pass::later, rows.dim);
  const double share = 1.0 / static_cast<double>(rows.dim);
  const auto input = [&](int64_t r) FOVEA_INLINE_BODY {
    const NormRow &row = rows.row[min_of(r, rows.listed - 1)];
    return NormInput<has_residual>(row.x, row.residual);
  };
  const auto moments_of = [&](int64_t r) FOVEA_INLINE_BODY {
    const NormInput<has_residual> ahead = input(r + later);
    return row_moments(input(r), rows.dim, [&](int64_t i) FOVEA_INLINE_BODY {
      if constexpr (Pass::later > 0) ahead.template prefetch<2>(i);
    });
  };
  const auto *weights = static_cast<const float *>(rows.weight);
  const auto *biases = static_cast<const float *>(rows.bias);
  // The next row's statistics are under way while this one's root and quotient are.
  Moments next = moments_of(0);
  for (int64_t r = 0; r < rows.count; ++r) {
    const Moments moments = next;
    if (r + 1 < rows.count) next = moments_of(r + 1);
    const double spread = moments.squares * share + rows.epsilon;
    if (fits_floats(spread)) {
      const Normalisation normalise(moments, spread, weights, biases);
      put_row(input(r), normalise, static_cast<float *>(rows.row[r].out), rows.dim, input(r + soon), pass);
    } else {
      norm_row_again(rows.row[r], rows, spread);
    }
  }
}

template <bool has_residual>
FOVEA_INLINE void norm_rows_of(const NormRows &rows) {
  if (rows.traffic == NormTraffic::past_caches) return norm_rows_with<has_residual, StreamedPass>(rows);
  if (rows.traffic == NormTraffic::from_memory) return norm_rows_with<has_residual, MemoryPass>(rows);
  norm_rows_with<has_residual, CachedPass>(rows);
}

// ---- other types -----------------------------------------------------------------------------------------------------

// y of `count` elements as floats, and their sum, in chunk_sum's order; behind them are zeros up to a whole register.
template <class X, class Residual>
FOVEA_NOINLINE float widen_chunk(const X *x, const Residual *residual, int64_t count, float *to) {
  const auto put = [&](int64_t i, const Float &value, Float &sum) FOVEA_INLINE_BODY {
    store(to + i, value);
    sum = sum + value;
  };
  const auto y = [&](int64_t i) FOVEA_INLINE_BODY {
    if constexpr (!same_type<Residual, void>) return load(x + i) + load(residual + i);
    return load(x + i);
  };
  Float sum[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    unroll<4>([&](auto v) FOVEA_INLINE_BODY { put(i + v * lanes, y(i + v * lanes), sum[v]); });
  }
  for (; i + lanes <= count; i += lanes) put(i, y(i), sum[0]);
  if (i < count) {
    Float value = load_partial(x + i, count - i);
    if constexpr (!same_type<Residual, void>) value = value + load_partial(residual + i, count - i);
    put(i, value, sum[1]);
  }
  return horizontal_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// Those of `row` from `begin` on.
FOVEA_INLINE float widen_chunk_of(const NormRows &rows, const NormRow &row, int64_t begin, int64_t count, float *to) {
  float sum = 0;
  with_element(rows.types.x, [&]<class X>(X) FOVEA_INLINE_BODY {
    const auto *x = static_cast<const typename X::Element *>(row.x) + begin;
    if (row.residual == nullptr) return void(sum = widen_chunk(x, static_cast<const void *>(nullptr), count, to));
    with_element(rows.types.residual, [&]<class Residual>(Residual) FOVEA_INLINE_BODY {
      sum = widen_chunk(x, static_cast<const typename Residual::Element *>(row.residual) + begin, count, to);
    });
  });
  return sum;
}

FOVEA_NOINLINE Moments widened_moments(const float *y, int64_t count, float sum) {
  return chunk_moments(NormInput<false>(y, nullptr), 0, count, sum, [](int64_t) FOVEA_INLINE_BODY {});
}

template <class Out>
FOVEA_NOINLINE void put_chunk(const float *y, const Normalisation &normalise, Out *out, int64_t count) {
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    store_two<Nans::any>(out + i, normalise.at(load(y + i), i), normalise.at(load(y + i + lanes), i + lanes));
  }
  for (; i < count; i += lanes) {
    const int64_t left = min_of(count - i, lanes);
    store_partial(out + i, normalise.first_at(load(y + i), i, left), left);
  }
}

// Weights and biases of a chunk of columns, as floats.
class WidenedWeights {
 public:
  FOVEA_NOINLINE void read(const NormRows &rows, int64_t begin, int64_t count) {
    weight = widened(rows.weight, rows.types.weight, begin, count, weight_floats_);
    bias = widened(rows.bias, rows.types.bias, begin, count, bias_floats_);
  }

  const float *weight = nullptr, *bias = nullptr;  // null: none

 private:
  static const float *widened(const void *from, Dtype dtype, int64_t begin, int64_t count, float *to) {
    if (from == nullptr) return nullptr;
    if (dtype == Dtype::f32) return static_cast<const float *>(from) + begin;
    widen_rows(element_at(from, dtype, begin), dtype, 0, 1, count, to, 0);
    return to;
  }

  alignas(64) float weight_floats_[norm_chunk];
  alignas(64) float bias_floats_[norm_chunk];
};

FOVEA_INLINE void put_chunk_of(const NormRows &rows, int64_t r, const Moments &moments, double spread,
                               const WidenedWeights &weights, const float *y, int64_t begin, int64_t count) {
  const Normalisation normalise(moments, spread, weights.weight, weights.bias);
  with_element(rows.types.out, [&]<class Out>(Out) FOVEA_INLINE_BODY {
    put_chunk(y, normalise, static_cast<typename Out::Element *>(rows.row[r].out) + begin, count);
  });
}

FOVEA_NOINLINE void norm_short_widened_rows(const NormRows &rows) {
  alignas(64) float y[2][norm_chunk];
  WidenedWeights weights;
  weights.read(rows, 0, rows.dim);
  const double share = 1.0 / static_cast<double>(rows.dim);
  const auto read = [&](int64_t r) FOVEA_INLINE_BODY {
    const float sum = widen_chunk_of(rows, rows.row[r], 0, rows.dim, y[r % 2]);
    return widened_moments(y[r % 2], rows.dim, sum);
  };
  Moments next = read(0);
  for (int64_t r = 0; r < rows.count; ++r) {
    const Moments moments = next;
    if (r + 1 < rows.count) next = read(r + 1);
    const double spread = moments.squares * share + rows.epsilon;
    if (fits_floats(spread)) {
      put_chunk_of(rows, r, moments, spread, weights, y[r % 2], 0, rows.dim);
    } else {
      norm_row_again(rows.row[r], rows, spread);
    }
  }
}

constexpr int64_t most_long_rows = 16;  // that share the weights of a chunk

// Rows of several chunks: all their statistics, then chunk by chunk all of them.
FOVEA_NOINLINE void norm_long_widened_rows(const NormRows &rows) {
  alignas(64) float y[norm_chunk];
  WidenedWeights weights;
  Moments moments[most_long_rows];
  double spread[most_long_rows];
  const double share = 1.0 / static_cast<double>(rows.dim);
  for (int64_t r = 0; r < rows.count; ++r) {
    for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
      const int64_t count = min_of(norm_chunk, rows.dim - begin);
      const float sum = widen_chunk_of(rows, rows.row[r], begin, count, y);
      const Moments more = widened_moments(y, count, sum);
      begin == 0 ? void(moments[r] = more) : moments[r].merge(more);
    }
    spread[r] = moments[r].squares * share + rows.epsilon;
    if (!fits_floats(spread[r])) norm_row_again(rows.row[r], rows, spread[r]);
  }
  for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
    const int64_t count = min_of(norm_chunk, rows.dim - begin);
    weights.read(rows, begin, count);
    for (int64_t r = 0; r < rows.count; ++r) {
      if (!fits_floats(spread[r])) continue;
      widen_chunk_of(rows, rows.row[r], begin, count, y);
      put_chunk_of(rows, r, moments[r], spread[r], weights, y, begin, count);
    }
  }
}

void norm_widened_rows(const NormRows &rows) {
  if (rows.dim <= norm_chunk) return norm_short_widened_rows(rows);
  NormRows some = rows;
  for (; some.row < rows.row + rows.count; some.row += some.count) {
    some.count = min_of(most_long_rows, rows.row + rows.count - some.row);
    norm_long_widened_rows(some);
  }
}

void norm_rows_of_any(const NormRows &rows) {
  const bool has_residual = rows.row[0].residual != nullptr;
  const auto is_float = [](const void *data, Dtype type) { return data == nullptr || type == Dtype::f32; };
  if (rows.types.x == Dtype::f32 && rows.types.out == Dtype::f32 && is_float(rows.weight, rows.types.weight) &&
      is_float(rows.bias, rows.types.bias) && (!has_residual || rows.types.residual == Dtype::f32)) {
    return has_residual ? norm_rows_of<true>(rows) : norm_rows_of<false>(rows);
  }
  norm_widened_rows(rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
