// Layer and RMS normalisation of rows whose tensors have any types: a chunk of a row becomes floats in the first-level cache,
// where its statistics are taken and from where it is written; weights become floats once for all rows of a task, or for a
// few rows at a time where they have several chunks. In float32, as layer_norm.hpp has it, which takes rows of floats alone.
#pragma once

#include "kernels/rowwise/layer_norm.hpp"
#include "kernels/rowwise/widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

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

FOVEA_NOINLINE Moments widened_moments(NormKind kind, const float *y, int64_t count, float sum) {
  const NormInput<false> input(y, nullptr);
  const auto no_ask = [](int64_t) FOVEA_INLINE_BODY {};
  return kind == NormKind::rms ? chunk_squares(input, 0, count, no_ask) : chunk_moments(input, 0, count, sum, no_ask);
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
  const Normalisation normalise(moments, spread, rows, weights.weight, weights.bias);
  with_element(rows.types.out, [&]<class Out>(Out) FOVEA_INLINE_BODY {
    put_chunk(y, normalise, static_cast<typename Out::Element *>(rows.row[r].out) + begin, count);
  });
  void *sum = rows.row[r].sum;
  if (sum != nullptr) narrow_row(y, count, element_at(sum, rows.types.sum, begin), rows.types.sum);
}

FOVEA_NOINLINE void norm_short_widened_rows(const NormRows &rows) {
  alignas(64) float y[2][norm_chunk];
  WidenedWeights weights;
  weights.read(rows, 0, rows.dim);
  const double share = 1.0 / static_cast<double>(rows.dim);
  const auto read = [&](int64_t r) FOVEA_INLINE_BODY {
    const float sum = widen_chunk_of(rows, rows.row[r], 0, rows.dim, y[r % 2]);
    return widened_moments(rows.kind, y[r % 2], rows.dim, sum);
  };
  Moments next = read(0);
  for (int64_t r = 0; r < rows.count; ++r) {
    const Moments moments = next;
    if (r + 1 < rows.count) next = read(r + 1);
    const double spread = moments.squares * share + rows.epsilon;
    if (fits_floats(spread)) {
      put_statistics(rows, r, moments.mean, spread);
      put_chunk_of(rows, r, moments, spread, weights, y[r % 2], 0, rows.dim);
    } else {
      norm_row_again(r, rows, spread);
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
      const Moments more = widened_moments(rows.kind, y, count, sum);
      begin == 0 ? void(moments[r] = more) : moments[r].merge(more);
    }
    spread[r] = moments[r].squares * share + rows.epsilon;
    fits_floats(spread[r]) ? put_statistics(rows, r, moments[r].mean, spread[r]) : norm_row_again(r, rows, spread[r]);
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
  for (int64_t first = 0; first < rows.count; first += most_long_rows) {
    NormRows some = rows;
    some.row += first;
    some.count = min_of(most_long_rows, rows.count - first);
    if (some.mean != nullptr) some.mean += first;
    if (some.inverse_deviation != nullptr) some.inverse_deviation += first;
    norm_long_widened_rows(some);
  }
}

void norm_rows_of_any(const NormRows &rows) {
  const bool has_residual = rows.row[0].residual != nullptr;
  const auto is_float = [](const void *data, Dtype type) { return data == nullptr || type == Dtype::f32; };
  if (rows.types.x == Dtype::f32 && rows.types.out == Dtype::f32 && is_float(rows.weight, rows.types.weight) &&
      is_float(rows.bias, rows.types.bias) && is_float(rows.row[0].residual, rows.types.residual) &&
      is_float(rows.row[0].sum, rows.types.sum)) {
    return has_residual ? norm_rows_of<true>(rows) : norm_rows_of<false>(rows);
  }
  norm_widened_rows(rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
