// Layer or RMS normalisation of a row whose squares leave the range of float32: all of it times a power of two first, and epsilon
// times its square, which changes no bit of the result, beside the ordinary passes about twice their time. What no power of
// two helps (a row all but constant beside an epsilon below 2^-90) is computed in float64.
#pragma once

#include "kernels/rowwise/layer_norm_widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

FOVEA_INLINE float factor_again(double spread) {
  if (!(spread <= 0x1p-90)) return 0x1p-74f;  // of sums of 2^129 a chunk's squares still add up to less than 2^128
  return spread > 0x1p-126 ? 0x1p90f : 0x1p120f;
}

// `count` of a row's y times `factor`, with zeros behind them up to a whole register; returns their sum.
FOVEA_NOINLINE float read_times(float factor, const NormRow &row, const NormRows &rows, int64_t begin, int64_t count,
                                float *to) {
  alignas(64) float residual[norm_chunk];
  const auto read = [&](const void *from, Dtype dtype, float *its) {
    store(its + (count - 1) / lanes * lanes, zero());
    widen_rows(element_at(from, dtype, begin), dtype, 0, 1, count, its, 0);
  };
  read(row.x, rows.types.x, to);
  if (row.residual != nullptr) read(row.residual, rows.types.residual, residual);
  for (int64_t i = 0; i < count; i += lanes) {
    const Float x = load(to + i) * factor;
    store(to + i, row.residual == nullptr ? x : x + load(residual + i) * factor);
  }
  return chunk_sum(NormInput<false>(to, nullptr), 0, count);
}

// False, and nothing done, where that does not help.
FOVEA_NOINLINE bool normed_times(float factor, int64_t r, const NormRows &rows) {
  const NormRow &row = rows.row[r];
  alignas(64) float y[norm_chunk];
  WidenedWeights weights;
  Moments moments;
  const auto read = [&](int64_t begin) {
    return read_times(factor, row, rows, begin, min_of(norm_chunk, rows.dim - begin), y);
  };
  for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
    const float sum = read(begin);
    const Moments more = widened_moments(rows.kind, y, min_of(norm_chunk, rows.dim - begin), sum);
    begin == 0 ? void(moments = more) : moments.merge(more);
  }
  const double square = static_cast<double>(factor) * static_cast<double>(factor);
  const double spread = moments.squares * (1.0 / static_cast<double>(rows.dim)) + rows.epsilon * square;
  const bool out_alone = row.sum == nullptr && rows.mean == nullptr && rows.inverse_deviation == nullptr;
  if (spread != spread && factor < 1.0f && out_alone) {  // no sum was too large: an element was infinite or NaN
    with_element(rows.types.out, [&]<class Out>(Out) FOVEA_INLINE_BODY {
      fill_run(static_cast<typename Out::Element *>(row.out), rows.dim, __builtin_nanf(""));
    });
    return true;
  }
  if (!fits_floats(spread)) return false;
  put_statistics(rows, r, moments.mean / static_cast<double>(factor), spread / square);
  NormRow out_only = row;
  out_only.sum = nullptr;
  NormRows one = rows;
  one.row = &out_only;
  alignas(64) float sum[norm_chunk];
  for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
    const int64_t count = min_of(norm_chunk, rows.dim - begin);
    if (rows.dim > norm_chunk) read(begin);
    if (row.sum != nullptr)
      read_times(1.0f, row, rows, begin, count, sum);  // before either is written over x or residual
    weights.read(rows, begin, count);
    put_chunk_of(one, 0, moments, spread, weights, y, begin, count);
    if (row.sum != nullptr) narrow_row(sum, count, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
  }
  return true;
}

FOVEA_NOINLINE void norm_row_in_float64(int64_t r, const NormRows &rows) {
  const NormRow &row = rows.row[r];
  constexpr int64_t block = 256;
  alignas(64) float x[block], residual[block], weight[block], bias[block];
  const auto read = [&](const void *from, Dtype dtype, int64_t begin, float none, float *to) {
    const int64_t size = min_of(block, rows.dim - begin);
    if (from != nullptr) return widen_rows(element_at(from, dtype, begin), dtype, 0, 1, size, to, 0);
    for (int64_t i = 0; i < size; ++i) to[i] = none;
  };
  const auto for_each_value = [&](const auto &body) {
    for (int64_t begin = 0; begin < rows.dim; begin += block) {
      read(row.x, rows.types.x, begin, 0, x);
      read(row.residual, rows.types.residual, begin, 0, residual);
      for (int64_t i = 0; i < min_of(block, rows.dim - begin); ++i) {
        const auto value = static_cast<double>(x[i]);
        body(begin, i, row.residual == nullptr ? value : value + static_cast<double>(residual[i]));
      }
    }
  };
  const auto count = static_cast<double>(rows.dim);
  double sum = 0.0;
  for_each_value([&](int64_t, int64_t, double value) { sum += value; });
  const double mean = rows.kind == NormKind::rms ? 0.0 : sum / count;
  double squares = 0.0;
  for_each_value([&](int64_t, int64_t, double value) { squares += (value - mean) * (value - mean); });
  const double spread = squares / count + rows.epsilon;
  put_statistics(rows, r, mean, spread);
  const double scale = 1.0 / __builtin_sqrt(spread);
  for_each_value([&](int64_t begin, int64_t i, double value) {
    if (i == 0) {
      read(rows.weight, rows.types.weight, begin, 1, weight);
      read(rows.bias, rows.types.bias, begin, 0, bias);
    }
    const float plain = row.residual == nullptr ? x[i] : x[i] + residual[i];
    const auto raised = static_cast<double>(rows.weight == nullptr ? 1.0f : weight[i] + rows.weight_raise);
    x[i] = static_cast<float>((value - mean) * scale * raised + static_cast<double>(bias[i]));
    residual[i] = plain;
    if (i + 1 < block && begin + i + 1 < rows.dim) return;
    narrow_row(x, i + 1, element_at(row.out, rows.types.out, begin), rows.types.out);
    if (row.sum != nullptr) narrow_row(residual, i + 1, element_at(row.sum, rows.types.sum, begin), rows.types.sum);
  });
}

// spread: as far as the row's squares gave it.
FOVEA_NOINLINE void norm_row_again(int64_t r, const NormRows &rows, double spread) {
  if (!normed_times(factor_again(spread), r, rows)) norm_row_in_float64(r, rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
