// Backward passes of what takes elements and rows one by one, as their kernels are given them.
#pragma once

#include <cstdint>

#include "kernels/rowwise/layer_norm_problem.hpp"
#include "types.hpp"

namespace fovea {

// Elements that follow each other. out = activation(x) multiplier:
//   grad_x = grad_out multiplier activation'(x)   grad_multiplier = grad_out activation(x)
// grad_x may be grad_out where their types are the same.
struct ActivationGradients {
  Activation kind;
  const void *x, *grad_out;
  const void *multiplier = nullptr;  // null: ones
  void *grad_x = nullptr;            // null: not wanted
  void *grad_multiplier = nullptr;   // likewise
  struct {
    Dtype x, grad_out, multiplier = Dtype::f32, grad_x = Dtype::f32, grad_multiplier = Dtype::f32;
  } types;
  int64_t count;
};

struct SoftmaxGradientTypes {
  Dtype out, grad_out, grad_x;
};

struct SoftmaxGradientRow {
  const void *out, *grad_out;
  void *grad_x;       // may be grad_out where their types are the same
  int64_t valid_len;  // keys that took part; the others get 0
};

struct SoftmaxGradientRows {
  const SoftmaxGradientRow *row;
  SoftmaxGradientTypes types;
  int64_t count;
  int64_t key_len;
  bool log;  // out is the logarithm
};

// Over an axis that is not the last: element (k, column) at k * stride + column.
struct SoftmaxGradientColumns {
  const void *out, *grad_out;
  void *grad_x;
  SoftmaxGradientTypes types;
  int64_t out_stride, grad_out_stride, grad_x_stride;
  int64_t key_len;
  int64_t columns;  // up to softmax_gradient_columns
  bool log;
};
constexpr int64_t softmax_gradient_columns = 256;

// A row of y = x + residual and what the loss changes by for it. grad_x may be grad_out or grad_sum.
struct NormGradientRow {
  const void *x;
  const void *residual;  // null in every row or in none
  const void *grad_out;
  const void *grad_sum;  // is added; null in every row or in none
  void *grad_x;          // null in every row or in none
};

struct NormGradientRows {
  const NormGradientRow *row;
  int64_t count;
  int64_t dim;
  const void *weight;  // [dim]; null: ones
  struct {
    Dtype x, residual, grad_out, grad_sum, grad_x, weight;  // of what there is
  } types;
  double epsilon;
  NormKind kind;
  float weight_raise;  // is added to every weight
  bool from_memory;    // rows are thought to lie in memory, not in caches
  // [dim], to which the rows' gradients are added; or null.
  float *weight_sums;
  float *bias_sums;
};

// A row that is added to sums of columns, all [dim].
struct SummedRow {
  const void *row;
  Dtype dtype;
  int64_t dim;
  float *sums;
};

// Part s of outs stands s * outs_stride elements from the first, and so on.
struct MergeGradientRow {
  const void *outs;
  Dtype outs_type;
  int64_t outs_stride;
  const float *lses;
  int64_t lses_stride;
  const void *grad_out;
  Dtype grad_out_type;
  const float *grad_log_sum_exp;  // null: 0
  void *grad_outs;                // null: not wanted
  Dtype grad_outs_type;
  int64_t grad_outs_stride;
  float *grad_lses;  // likewise
  int64_t grad_lses_stride;
  int64_t parts;
  int64_t value_dim;
};

}  // namespace fovea
