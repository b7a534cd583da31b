// Gradients of layer and RMS normalisation, row by row. With z = (y - mean) r and g = grad_out weight:
//
//   grad_y = r (g - mean(g) - z mean(g z)) + grad_sum,  without mean(g) where there is no mean
//   weight_sums += grad_out z      bias_sums += grad_out
//
// The row's mean and variance are taken as layer_norm.hpp has them, from chunks that have become floats in the first-level cache;
// a row of one chunk is read from memory once, a longer one three times. Rows whose squares leave the range of float32 are
// computed in float64.
#pragma once

#include "kernels/pieces.hpp"
#include "kernels/rowwise/gradient_problem.hpp"
#include "kernels/rowwise/layer_norm_widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// What normalises a row, as the forward pass's kernels are given it.
FOVEA_INLINE NormRows as_norm_rows(const NormGradientRows &rows) {
  return {.row = nullptr,
          .count = 0,
          .listed = 0,
          .dim = rows.dim,
          .weight = nullptr,
          .bias = nullptr,
          .types = {.x = rows.types.x,
                    .residual = rows.types.residual,
                    .out = Dtype::f32,
                    .weight = Dtype::f32,
                    .bias = Dtype::f32},
          .epsilon = rows.epsilon,
          .traffic = NormTraffic::cached,
          .kind = rows.kind};
}

// A chunk of a row as floats.
struct NormGradientChunk {
  alignas(64) float y[norm_chunk], grad_floats[norm_chunk], weight_floats[norm_chunk], sum_floats[norm_chunk];
  const float *grad = nullptr;
  const float *weight = nullptr;  // null: ones

  void read_gradient(const NormGradientRows &rows, const NormGradientRow &row, int64_t begin, int64_t count) {
    grad = read_piece(row.grad_out, rows.types.grad_out, begin, count, grad_floats);
    if (rows.weight != nullptr) weight = read_piece(rows.weight, rows.types.weight, begin, count, weight_floats);
  }
};

// y becomes z, sums grow; adds up g and g z.
FOVEA_NOINLINE void add_norm_sums(const NormGradientRows &rows, const NormScale &scale, NormGradientChunk &chunk,
                                  int64_t begin, int64_t count, double *sum, double *moment) {
  const Float mean = splat(scale.mean), factor = splat(scale.scale), shift = splat(scale.shift);
  const Float raise = splat(rows.weight_raise);
  float *weight_sums = rows.weight_sums == nullptr ? nullptr : rows.weight_sums + begin;
  float *bias_sums = rows.bias_sums == nullptr ? nullptr : rows.bias_sums + begin;
  RowSum g_sum, gz_sum;
  for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
    const Float z = multiply_add(load_up_to(chunk.y + i, width) - mean, factor, shift);
    store_up_to(chunk.y + i, z, width);
    const Float grad = load_up_to(chunk.grad + i, width);
    if (weight_sums != nullptr) {
      store_up_to(weight_sums + i, multiply_add(grad, z, load_up_to(weight_sums + i, width)), width);
    }
    if (bias_sums != nullptr) store_up_to(bias_sums + i, load_up_to(bias_sums + i, width) + grad, width);
    const Float g = chunk.weight == nullptr ? grad : grad * (load_up_to(chunk.weight + i, width) + raise);
    g_sum.first = g_sum.first + g;
    gz_sum.first = multiply_add(g, z, gz_sum.first);
  });
  g_sum.finish_piece();
  gz_sum.finish_piece();
  *sum += g_sum.total;
  *moment += gz_sum.total;
}

// r (g - mean - z moment) + grad_sum, from a chunk whose y is z.
FOVEA_NOINLINE void put_norm_gradient(const NormGradientRows &rows, const NormGradientRow &row, float r,
                                      float mean_of_g, float moment_of_g, NormGradientChunk &chunk, int64_t begin,
                                      int64_t count) {
  const Float mean = splat(mean_of_g), moment = splat(moment_of_g), factor = splat(r), raise = splat(rows.weight_raise);
  const float *more =
      row.grad_sum == nullptr ? nullptr : read_piece(row.grad_sum, rows.types.grad_sum, begin, count, chunk.sum_floats);
  float *to = written_piece(row.grad_x, rows.types.grad_x, begin, chunk.y);
  for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
    const Float z = load_up_to(chunk.y + i, width), grad = load_up_to(chunk.grad + i, width);
    const Float g = chunk.weight == nullptr ? grad : grad * (load_up_to(chunk.weight + i, width) + raise);
    const Float all = (multiply_add(-z, moment, g) - mean) * factor;
    store_up_to(to + i, more == nullptr ? all : all + load_up_to(more + i, width), width);
  });
  put_piece(to, row.grad_x, rows.types.grad_x, begin, count);
}

// All of a row in float64, element by element.
FOVEA_NOINLINE void norm_gradient_in_float64(const NormGradientRows &rows, const NormGradientRow &row) {
  NormGradientChunk chunk;
  const NormRows forward = as_norm_rows(rows);
  // y is x + residual in float64: floats' sum may be infinite.
  alignas(64) float residual[norm_chunk];
  const auto for_each = [&](const auto &body, const auto &end_chunk) {
    for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) {
      const int64_t count = min_of(norm_chunk, rows.dim - begin);
      const float *x = read_piece(row.x, forward.types.x, begin, count, chunk.y);
      const float *more =
          row.residual == nullptr ? nullptr : read_piece(row.residual, rows.types.residual, begin, count, residual);
      chunk.read_gradient(rows, row, begin, count);
      for (int64_t i = 0; i < count; ++i) {
        const auto y = static_cast<double>(x[i]) + (more == nullptr ? 0.0 : static_cast<double>(more[i]));
        const auto weight = chunk.weight == nullptr ? 1.0f : chunk.weight[i] + rows.weight_raise;
        body(begin, i, y, static_cast<double>(chunk.grad[i]), static_cast<double>(weight));
      }
      end_chunk(begin, count);
    }
  };
  const auto nothing = [](int64_t, int64_t) {};
  const auto n = static_cast<double>(rows.dim);
  double sum = 0.0, squares = 0.0, of_g = 0.0, of_gz = 0.0;
  for_each([&](int64_t, int64_t, double y, double, double) { sum += y; }, nothing);
  const double mean = rows.kind == NormKind::rms ? 0.0 : sum / n;
  for_each([&](int64_t, int64_t, double y, double, double) { squares += (y - mean) * (y - mean); }, nothing);
  const double r = 1.0 / __builtin_sqrt(squares / n + rows.epsilon);
  for_each(
      [&](int64_t begin, int64_t i, double y, double grad, double weight) {
        const double z = (y - mean) * r;
        of_g += grad * weight;
        of_gz += grad * weight * z;
        if (rows.weight_sums != nullptr) rows.weight_sums[begin + i] += static_cast<float>(grad * z);
        if (rows.bias_sums != nullptr) rows.bias_sums[begin + i] += static_cast<float>(grad);
      },
      nothing);
  if (row.grad_x == nullptr) return;
  const double centre = rows.kind == NormKind::rms ? 0.0 : of_g / n;
  alignas(64) float floats[norm_chunk];
  for_each(
      [&](int64_t, int64_t i, double y, double grad, double weight) {
        floats[i] = static_cast<float>(r * (grad * weight - centre - (y - mean) * r * (of_gz / n)));
      },
      [&](int64_t begin, int64_t count) {
        if (row.grad_sum != nullptr) {
          const float *more = read_piece(row.grad_sum, rows.types.grad_sum, begin, count, chunk.sum_floats);
          for (int64_t i = 0; i < count; ++i) floats[i] += more[i];
        }
        narrow_row(floats, count, element_at(row.grad_x, rows.types.grad_x, begin), rows.types.grad_x);
      });
}

void norm_gradient_rows(const NormGradientRows &rows) {
  NormGradientChunk chunk;
  const NormRows forward = as_norm_rows(rows);
  const double share = 1.0 / static_cast<double>(rows.dim);
  const bool stays = rows.dim <= norm_chunk;
  for (int64_t r = 0; r < rows.count; ++r) {
    const NormGradientRow &row = rows.row[r];
    const NormRow its = {.x = row.x, .residual = row.residual, .out = nullptr};
    const auto for_each_chunk = [&](const auto &body) {
      for (int64_t begin = 0; begin < rows.dim; begin += norm_chunk) body(begin, min_of(norm_chunk, rows.dim - begin));
    };
    Moments moments;
    for_each_chunk([&](int64_t begin, int64_t count) {
      const float sum = widen_chunk(forward, its, begin, count, chunk.y);
      const Moments more = widened_moments(rows.kind, chunk.y, count, sum);
      begin == 0 ? void(moments = more) : moments.merge(more);
    });
    const double spread = moments.squares * share + rows.epsilon;
    if (!fits_floats(spread)) {
      norm_gradient_in_float64(rows, row);
      continue;
    }
    const NormScale scale(moments, spread, rows.kind);
    double sum = 0.0, moment = 0.0;
    for_each_chunk([&](int64_t begin, int64_t count) {
      if (!stays) widen_chunk(forward, its, begin, count, chunk.y);
      chunk.read_gradient(rows, row, begin, count);
      add_norm_sums(rows, scale, chunk, begin, count, &sum, &moment);
    });
    if (row.grad_x == nullptr) continue;
    const auto mean_of_g = static_cast<float>(rows.kind == NormKind::rms ? 0.0 : sum * share);
    for_each_chunk([&](int64_t begin, int64_t count) {
      if (!stays) {
        widen_chunk(forward, its, begin, count, chunk.y);
        chunk.read_gradient(rows, row, begin, count);
        const Float mean = splat(scale.mean), factor = splat(scale.scale), shift = splat(scale.shift);
        for (int64_t i = 0; i < count; i += lanes) {
          store(chunk.y + i, multiply_add(load(chunk.y + i) - mean, factor, shift));
        }
      }
      put_norm_gradient(rows, row, scale.scale, mean_of_g, static_cast<float>(moment * share), chunk, begin, count);
    });
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
