// Gradients of merged attention, of a row over all its parts: with w_s = e^(lse_s - max) / sum e^(lse_s - max) and
// d_s = grad_out . out_s
//
//   grad_out_s = w_s grad_out     grad_lse_s = w_s (d_s - sum_t w_t d_t + grad_log_sum_exp)
//
// Parts with log-sum-exp -infinity are not read, and get 0. Weights are made again where they are wanted, and each d_s
// twice: there may be any number of parts.
#pragma once

#include <math.h>

#include "kernels/pieces.hpp"
#include "kernels/rowwise/gradient_problem.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// grad_out . out_s
FOVEA_NOINLINE double dot_with_part(const MergeGradientRow &row, int64_t part) {
  alignas(64) float out_floats[piece_floats], grad_floats[piece_floats];
  RowSum sum;
  for (int64_t first = 0; first < row.value_dim; first += piece_floats) {
    const int64_t count = min_of(piece_floats, row.value_dim - first);
    const float *out = read_piece(row.outs, row.outs_type, part * row.outs_stride + first, count, out_floats);
    const float *grad = read_piece(row.grad_out, row.grad_out_type, first, count, grad_floats);
    for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
      sum.first = multiply_add(load_up_to(out + i, width), load_up_to(grad + i, width), sum.first);
    });
    sum.finish_piece();
  }
  return sum.total;
}

// A part that has no keys gets zeros, not 0 times what may not be finite.
FOVEA_NOINLINE void put_part_gradient(const MergeGradientRow &row, int64_t part, bool has_keys, double weight) {
  alignas(64) float grad_floats[piece_floats], floats[piece_floats];
  const Float factor = splat(static_cast<float>(weight));
  for (int64_t first = 0; first < row.value_dim; first += piece_floats) {
    const int64_t count = min_of(piece_floats, row.value_dim - first);
    const int64_t at = part * row.grad_outs_stride + first;
    const float *grad = read_piece(row.grad_out, row.grad_out_type, first, count, grad_floats);
    float *to = written_piece(row.grad_outs, row.grad_outs_type, at, floats);
    for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
      store_up_to(to + i, has_keys ? load_up_to(grad + i, width) * factor : zero(), width);
    });
    put_piece(to, row.grad_outs, row.grad_outs_type, at, count);
  }
}

void merge_gradient_row(const MergeGradientRow &row) {
  const auto lse_of = [&](int64_t part) { return row.lses[part * row.lses_stride]; };
  float most = -__builtin_inff();
  bool nan = false;
  for (int64_t part = 0; part < row.parts; ++part) {
    nan |= lse_of(part) != lse_of(part);
    if (lse_of(part) > most) most = lse_of(part);
  }
  if (nan) most = __builtin_nanf("");
  const auto weight_of = [&](int64_t part) {
    return exp(static_cast<double>(lse_of(part)) - static_cast<double>(most));
  };
  double total = 0.0, mean = 0.0;
  for (int64_t part = 0; part < row.parts; ++part) {
    if (lse_of(part) == -__builtin_inff()) continue;
    const double weight = weight_of(part);
    total += weight;
    if (row.grad_lses != nullptr) mean += weight * dot_with_part(row, part);
  }
  mean /= total;
  const double more = row.grad_log_sum_exp == nullptr ? 0.0 : static_cast<double>(*row.grad_log_sum_exp);
  for (int64_t part = 0; part < row.parts; ++part) {
    const bool has_keys = lse_of(part) != -__builtin_inff();
    const double weight = has_keys ? weight_of(part) / total : 0.0;
    if (row.grad_outs != nullptr) put_part_gradient(row, part, has_keys, weight);
    if (row.grad_lses == nullptr) continue;
    const double change = has_keys ? weight * (dot_with_part(row, part) - mean + more) : 0.0;
    row.grad_lses[part * row.grad_lses_stride] = static_cast<float>(change);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
