// Layer and RMS normalisation of rows, y = x + residual:
//
//   out = (y - mean) / sqrt(variance + epsilon) * weight + bias
//   out = y / sqrt(mean of y^2 + epsilon) * weight
//
// Mean and variance come from chunks that stay in the first-level cache, each read twice: for its mean, and for the
// squares of its deviations from that mean as rounded to a float. The sum of the same deviations, which would be zero
// but for that rounding, corrects both (Chan, Golub and LeVeque 1983, "corrected two-pass"), and chunks are merged in
// float64 by the same paper's rule. So a mean that is large beside the deviations costs nothing: y - mean is exact
// there, and the part of the mean that a float cannot hold is subtracted after it. In rows that are all but constant,
// deviations are so few steps of the last bit that their sums are exact too. A row of up to one chunk is fetched from
// memory once, a longer one twice. A mean square is a variance from a mean of 0, whose chunks are read once for it; all that
// comes after is the same code.
//
// Where y is wanted, too, it is written together with out, when both of its terms have been read for the last time.
//
// Rows whose squares leave the range of float32 go again times a power of two that brings them back, which changes no bit of
// the result: rowwise/layer_norm_again.hpp.
#pragma once

#include "kernels/rowwise/layer_norm_problem.hpp"
#include "kernels/rowwise/row_pass.hpp"

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

// Their mean square, as the variance of numbers whose mean is 0.
template <class Input, class Ask>
FOVEA_INLINE Moments chunk_squares(const Input &y, int64_t begin, int64_t end, const Ask &ask) {
  Float squares[4] = {zero(), zero(), zero(), zero()};
  const auto add = [&](auto v, const Float &value)
                       FOVEA_INLINE_BODY { squares[v] = multiply_add(value, value, squares[v]); };
  int64_t i = begin;
  for (; i + 4 * lanes <= end; i += 4 * lanes) {
    unroll<4>([&](auto v) FOVEA_INLINE_BODY { add(v, y.at(i + v * lanes)); });
    for (int64_t line = 0; line < 4 * lanes; line += line_floats) ask(i + line);
  }
  for (; i + lanes <= end; i += lanes) add(Index<0>{}, y.at(i));
  if (i < end) add(Index<1>{}, y.first_at(i, end - i));
  return {static_cast<double>(end - begin), 0.0, horizontal_sum((squares[0] + squares[1]) + (squares[2] + squares[3]))};
}

template <class Input, class Ask>
FOVEA_INLINE Moments row_moments(NormKind kind, const Input &y, int64_t dim, const Ask &ask) {
  const auto all = [&](const auto &chunk) FOVEA_INLINE_BODY {
    Moments moments = chunk(0, min_of(dim, norm_chunk));
    for (int64_t begin = norm_chunk; begin < dim; begin += norm_chunk) {
      moments.merge(chunk(begin, min_of(dim, begin + norm_chunk)));
    }
    return moments;
  };
  if (kind == NormKind::rms) {
    return all([&](int64_t begin, int64_t end) FOVEA_INLINE_BODY { return chunk_squares(y, begin, end, ask); });
  }
  return all([&](int64_t begin, int64_t end)
                 FOVEA_INLINE_BODY { return chunk_moments(y, begin, end, chunk_sum(y, begin, end), ask); });
}

FOVEA_INLINE void put_statistics(const NormRows &rows, int64_t r, double mean, double spread) {
  if (rows.mean != nullptr) rows.mean[r] = static_cast<float>(mean);
  if (rows.inverse_deviation != nullptr) rows.inverse_deviation[r] = static_cast<float>(1.0 / __builtin_sqrt(spread));
}

// What is known of a row's parameters while it is written.
enum class NormParameters { any, weight, weight_and_bias };

// ((y - mean) * scale + shift) * weight + bias, shift being what the mean's rounding left.
struct Normalisation {
  Float mean, scale, shift, raise;
  const float *weight, *bias;

  FOVEA_INLINE Normalisation(const Moments &moments, double spread, const NormRows &rows, const float *weights,
                             const float *biases)
      : raise(splat(rows.weight_raise)), weight(weights), bias(biases) {
    const double exact_scale = 1.0 / __builtin_sqrt(spread);
    const auto rounded_mean = static_cast<float>(moments.mean);
    mean = splat(rounded_mean);
    scale = splat(static_cast<float>(exact_scale));
    // Without a mean the sign of 0 is kept, too.
    const double rest = rows.kind == NormKind::rms ? -0.0 : static_cast<double>(rounded_mean) - moments.mean;
    shift = splat(static_cast<float>(rest * exact_scale));
  }

  FOVEA_INLINE NormParameters parameters() const {
    if (weight == nullptr) return NormParameters::any;
    return bias == nullptr ? NormParameters::weight : NormParameters::weight_and_bias;
  }

  template <NormParameters known = NormParameters::any>
  FOVEA_INLINE Float at(const Float &y, int64_t i) const {
    const Float value = multiply_add(y - mean, scale, shift);
    if constexpr (known == NormParameters::weight) return value * (load(weight + i) + raise);
    // Weights that come with a bias are never raised.
    if constexpr (known == NormParameters::weight_and_bias) return value * load(weight + i) + load(bias + i);
    const Float weighed = weight == nullptr ? value : value * (load(weight + i) + raise);
    return bias == nullptr ? weighed : weighed + load(bias + i);
  }
  FOVEA_INLINE Float first_at(const Float &y, int64_t i, int64_t count) const {
    Float value = multiply_add(y - mean, scale, shift);
    if (weight != nullptr) value = value * (load_partial(weight + i, count) + raise);
    return bias == nullptr ? value : value + load_partial(bias + i, count);
  }
};

// Where y goes, beside what is made of it: nowhere, or to `to`, as `store` stores.
struct NoSum {
  FOVEA_INLINE void put(int64_t, const Float &) const {}
  FOVEA_INLINE void put_first(int64_t, const Float &, int64_t) const {}
};
template <class Store>
struct SumTo {
  float *to;
  const Store &store;
  FOVEA_INLINE void put(int64_t i, const Float &y) const { store(to + i, y); }
  FOVEA_INLINE void put_first(int64_t i, const Float &y, int64_t count) const { store_partial(to + i, y, count); }
};

// Stores are aligned but for the row's first and last few. `soon`: the row whose turn comes soon.
template <class Input, class Sum, class Pass>
FOVEA_INLINE void put_row(const Input &y, const Normalisation &normalise, float *out, const Sum &sum, int64_t dim,
                          const Input &soon, const Pass &pass) {
  constexpr int64_t step = lanes < line_floats ? line_floats : lanes;
  const auto put_first = [&](int64_t i, int64_t count) FOVEA_INLINE_BODY {
    const Float value = y.first_at(i, count);
    store_partial(out + i, normalise.first_at(value, i, count), count);
    sum.put_first(i, value, count);
  };
  const auto put = [&](auto known, int64_t i) FOVEA_INLINE_BODY {
    const Float value = y.at(i);
    pass(out + i, normalise.template at<static_cast<NormParameters>(static_cast<int>(known))>(value, i));
    sum.put(i, value);
  };
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(float) % lanes);
  int64_t i = past == 0 ? 0 : min_of(lanes - past, dim);
  if (i > 0) put_first(0, i);
  const auto put_lines = [&](auto known) FOVEA_INLINE_BODY {
    for (; i + step <= dim; i += step) {
      if constexpr (Pass::soon > 0) soon.template prefetch<1>(i);
      unroll<step / lanes>([&](auto v) FOVEA_INLINE_BODY { put(known, i + v * lanes); });
    }
  };
  switch (normalise.parameters()) {
    case NormParameters::weight_and_bias: put_lines(Index<static_cast<int>(NormParameters::weight_and_bias)>{}); break;
    case NormParameters::weight: put_lines(Index<static_cast<int>(NormParameters::weight)>{}); break;
    default: put_lines(Index<static_cast<int>(NormParameters::any)>{});
  }
  for (; i + lanes <= dim; i += lanes) put(Index<static_cast<int>(NormParameters::any)>{}, i);
  if (i < dim) put_first(i, dim - i);
}

FOVEA_NOINLINE void norm_row_again(int64_t r, const NormRows &rows, double spread);

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
    return row_moments(rows.kind, input(r), rows.dim, [&](int64_t i) FOVEA_INLINE_BODY {
      if constexpr (Pass::later > 0) ahead.template prefetch<2>(i);
    });
  };
  const auto *weights = static_cast<const float *>(rows.weight);
  const auto *biases = static_cast<const float *>(rows.bias);
  const auto put = [&](int64_t r, const Normalisation &normalise) FOVEA_INLINE_BODY {
    auto *out = static_cast<float *>(rows.row[r].out), *sum = static_cast<float *>(rows.row[r].sum);
    const auto put_with = [&](const auto &its_sum) FOVEA_INLINE_BODY {
      put_row(input(r), normalise, out, its_sum, rows.dim, input(r + soon), pass);
    };
    if constexpr (has_residual) {
      constexpr CachedStore cached;
      const bool alike = Pass::reads_first || (sum - out) % lanes == 0;  // both aligned where out is
      if (sum != nullptr) return alike ? put_with(SumTo<Pass>{sum, pass}) : put_with(SumTo<CachedStore>{sum, cached});
    }
    put_with(NoSum{});
  };
  // The next row's statistics are under way while this one's root and quotient are.
  Moments next = moments_of(0);
  for (int64_t r = 0; r < rows.count; ++r) {
    const Moments moments = next;
    if (r + 1 < rows.count) next = moments_of(r + 1);
    const double spread = moments.squares * share + rows.epsilon;
    if (fits_floats(spread)) {
      put_statistics(rows, r, moments.mean, spread);
      put(r, Normalisation(moments, spread, rows, weights, biases));
    } else {
      norm_row_again(r, rows, spread);
    }
  }
}

template <bool has_residual>
FOVEA_INLINE void norm_rows_of(const NormRows &rows) {
  if (rows.traffic == NormTraffic::past_caches) return norm_rows_with<has_residual, StreamedPass>(rows);
  if (rows.traffic == NormTraffic::from_memory) return norm_rows_with<has_residual, MemoryPass>(rows);
  norm_rows_with<has_residual, CachedPass>(rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
