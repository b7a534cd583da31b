// What a matmul kernel is told. out[m,n] = activation(sum_k a[m,k] b[k,n] + bias[n]) + residual[m,n]
#pragma once

#include "types.hpp"

namespace fovea {

// The blocking of an instruction set: b is read in panels of panel_columns columns.
struct MatmulShape {
  int64_t panel_columns;
};

// Stores columns [0, columns) of b, at most one panel, as out[k][panel_columns], the missing columns zero.
struct MatmulPack {
  const float *b;
  int64_t b_row_stride;
  int64_t b_column_stride;
  int64_t depth;
  int64_t columns;
  float *out;
};

// A block of the product: `rows` rows times `columns` columns, over all of k.
struct MatmulTask {
  const float *a;
  int64_t a_row_stride;
  int64_t a_column_stride;
  const float *b;  // panel p, element (k, c) at b[p * b_panel_stride + k * b_row_stride + c]
  int64_t b_panel_stride;
  int64_t b_row_stride;
  float *out;
  int64_t out_row_stride;
  int64_t rows;
  int64_t columns;  // the last panel may be partial
  int64_t depth;
  const float *bias = nullptr;  // [columns]; null: none
  Activation activation = Activation::none;
  const float *residual = nullptr;  // null: none; may be out
  int64_t residual_row_stride = 0;
};

}  // namespace fovea
