// What a matmul kernel is told.
//   out[m,n] = activation(scale sum_k a[m,k] b[k,n] + bias[n]) multiplier[m,n] + residual_scale residual[m,n]
// Each operand is float32, binary16 or bfloat16; strides count its elements.
#pragma once

#include "types.hpp"

namespace fovea {

// Stores columns [0, columns) of b, at most one panel, as a panel (panels.hpp, byte_panel.hpp), the missing columns
// zero.
struct MatmulPack {
  const void *b;
  Dtype dtype = Dtype::f32;
  Dtype panel_dtype = Dtype::f32;  // its own, of float32 also bfloat16; or 8 bits, which other kernels pack
  int64_t b_row_stride;
  int64_t b_column_stride;
  int64_t depth;
  int64_t columns;
  float *out;
  int64_t panel_stride = 0;  // of MatmulKernels::pack_rows, whose columns fill several panels
};

// A chain of sums that keeps an error below twice that of pairwise ones.
constexpr int64_t short_chain = 48;

// Where a chain ends its sums are stored and loaded again: every 48 elements that takes a tenth of a product's time.
// Gradients' sums over rows, which are long, have chains of this length.
constexpr int64_t long_chain = 192;

// Of MatmulKernels::columns: rows of out that are taken together, and so many that it is worth it; and the depth up to
// which sums wait in out alone.
constexpr int64_t column_piece = 48, least_columns = 12, columns_alone = 768;

// A block of the product: `rows` rows times `columns` columns, over all of k.
struct MatmulTask {
  const void *a;
  Dtype a_dtype = Dtype::f32;
  int64_t a_row_stride;
  int64_t a_column_stride;
  const float *b;  // panel p at b + p * b_panel_stride
  Dtype b_dtype = Dtype::f32;
  int64_t b_panel_stride;
  const void *b_in_place = nullptr;  // for MatmulKernels::few_rows, columns side by side
  int64_t b_row_stride = 0;
  int64_t b_rows = 0;  // depth, or less by a zero that ends a's rows
  void *out;
  Dtype out_dtype = Dtype::f32;
  int64_t out_row_stride;
  int64_t rows;
  int64_t columns;  // the last panel may be partial
  int64_t depth;
  int64_t chain = INT64_MAX;    // at most so many of k are summed without a break
  float *block_sums = nullptr;  // room for as many sums as out has, for MatmulKernels::columns if depth > columns_alone
  int64_t block_sums_stride = 0;
  const void *bias = nullptr;  // [columns]; null: none
  Dtype bias_dtype = Dtype::f32;
  Activation activation = Activation::none;
  const void *multiplier = nullptr;  // null: none; may be out
  Dtype multiplier_dtype = Dtype::f32;
  int64_t multiplier_row_stride = 0;
  const void *residual = nullptr;  // likewise
  Dtype residual_dtype = Dtype::f32;
  int64_t residual_row_stride = 0;
  bool residual_is_column = false;  // one number for each row, that all of its columns get
  float scale = 1, residual_scale = 1;
};

// Rows of a to be copied before the product into what a kernel reads where it lies.
struct MatmulRows {
  const void *a;
  Dtype a_dtype = Dtype::f32;
  int64_t a_row_stride;
  int64_t a_column_stride;
  int64_t rows;
  int64_t depth;
  float *to;
  int64_t to_stride;  // in 32-bit words; MatmulKernels::copy_words(depth) or more
};

// The kernels of a product and the blocking they want. b is read in panels of panel_columns columns.
struct MatmulKernels {
  const char *set;  // of instructions, by its name
  int64_t panel_columns;
  int64_t block_rows;    // of a: a task should have a multiple of them
  int64_t row_step = 6;  // or at least of these
  // The size of one panel, in 32-bit words whatever its type; depth at most deepest_product.
  int64_t (*panel_floats)(int64_t depth, Dtype dtype);
  void (*pack)(const MatmulPack &pack);
  // Some rows of float32 whose columns lie side by side, into all of their float32 panels, which begin at these rows: every
  // line of a matrix is read once, one after the other. Null: panels are packed one by one.
  void (*pack_rows)(const MatmulPack &pack) = nullptr;
  void (*block)(const MatmulTask &task);
  // The same sums, b read once where it lies: for up to most_few_rows rows. Null: there are none.
  void (*few_rows)(const MatmulTask &task) = nullptr;
  int64_t most_few_rows = 0;
  // The same sums of floats, but in short chains, for rows of a that lie side by side as columns; nothing is done to
  // them. Null: there are none.
  void (*columns)(const MatmulTask &task) = nullptr;
  // Rows of a that are read where they lie; null: all. `block` copies others by itself, as long as those of the whole
  // product are at most rows_words 32-bit words as copies. More have to be copied before.
  bool (*reads_in_place)(const MatmulTask &task) = nullptr;
  int64_t rows_words = 0;
  void (*copy_rows)(const MatmulRows &rows) = nullptr;
  Dtype rows_dtype = Dtype::f32;  // of copies; i8: rounded rows with what undoes it, counted in bytes
  int64_t (*rounded_words)(int64_t depth) = nullptr;  // of such a row

  // Elements of a row's copy: bfloat16 in pairs, the last one with a zero.
  int64_t copied_depth(int64_t depth) const { return bytes_of(rows_dtype) == 2 ? round_up(depth, 2) : depth; }
  // 32-bit words of it.
  int64_t copy_words(int64_t depth) const {
    return rounded_words != nullptr ? rounded_words(depth) : copied_depth(depth) * bytes_of(rows_dtype) / 4;
  }
};

// Deeper ones do not fit the address space, and sizes below it can be computed with.
constexpr int64_t deepest_product = int64_t{1} << 48;

}  // namespace fovea
