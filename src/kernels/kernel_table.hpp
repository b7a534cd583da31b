// The structs of pointers that kernels are called by: one struct per topic, which each instruction set fills in (isa/).
// The lists of all there are, from which calls choose, are runtime/*_rows.hpp. A kernel does one task on memory it is
// given: it does not allocate, start threads or fail.
#pragma once

#include "kernels/attention/gradient_problem.hpp"
#include "kernels/positions/problem.hpp"
#include "kernels/products/matmul_problem.hpp"
#include "kernels/rowwise/gradient_problem.hpp"
#include "types.hpp"

namespace fovea {

// Elements that follow each other; out may be x where their types are the same.
struct ElementRun {
  const void *x;
  Dtype x_type;
  void *out;
  Dtype out_type;
  int64_t count;
};

// A row as numbers with a scale for each group of features (kernels/scaled_rows.hpp), and as what they stand for.
struct ScaledRow {
  void *numbers;
  Float16 *scales;
  void *floats;
};

// Such rows: more of them in a call take less time each.
struct ScaledRowList {
  const ScaledRow *row;
  int64_t count;
  Dtype numbers_dtype;    // i8, or u8: two numbers of 4 bits a byte
  int64_t group, groups;  // features of a group: a multiple of 16 (of 32: 4 bits), or all there are
  Dtype dtype;            // of floats
};

struct SoftmaxRow {
  const void *x;
  void *out;          // may be x where their types are the same
  int64_t valid_len;  // keys that take part; the others get 0
};

struct SoftmaxRows {
  const SoftmaxRow *row;
  Dtype x_type;
  Dtype out_type;
  int64_t count;
  int64_t key_len;
  EmptyRows empty_rows;
  bool stream;  // write past the caches: out is large and is not x
};

// Softmax over an axis that is not the last: element (k, column) at x + k * x_stride + column.
struct SoftmaxColumns {
  const void *x;
  Dtype x_type;
  int64_t x_stride;
  void *out;  // may be x where types and strides are the same
  Dtype out_type;
  int64_t out_stride;
  int64_t key_len;  // at least 1
  int64_t columns;
  bool log;  // the logarithm of it
};

struct MergeRow {
  const void *outs;  // part s stands s * out_stride elements from the first
  Dtype outs_type;
  const float *lses;  // part s at lses[s * lse_stride]
  // Null, or the parts' sums, with lses' stride: then lses are their largest scores in `unit`, and a part's log-sum-exp
  // is unit * lses[s] + log sums[s], which would be rounded to its own size.
  const float *sums;
  float unit;
  void *out;
  Dtype out_type;
  float *log_sum_exp;  // may be null
  int64_t parts;
  int64_t value_dim;
  int64_t out_stride;
  int64_t lse_stride;
};

// Rows of hidden units that a projection has written, `units` of them and then room up to a multiple of 16.
struct UnitRows {
  float *rows;
  int64_t count;
  int64_t step;  // rows from one to the next
  int64_t units;
  const float *bias;  // [units], added first; null: none
  float *reach;       // row i's at reach[i * step]: rows are keys, and become what the kernel reads; null: they stay
  // Rows that were projected before and are read instead: row i's units at given + i * given_stride. Null: none.
  const float *given = nullptr;
  int64_t given_stride = 0;
  // Where the first kept_count rows go, likewise, before they become anything else.
  float *kept = nullptr;
  int64_t kept_stride = 0, kept_count = 0;
};

struct SquaredNorms {
  const void *rows;
  Dtype dtype;
  int64_t stride;
  int64_t count;
  int64_t dim;
  float *out;  // [count]
};

// A block of a head's keys and values that kernels want in an order of their own.
struct AttentionPack {
  const AttentionProblem *problem;
  int64_t batch, kv_head;
  int64_t first_key;
  int64_t count;  // of keys that a query may attend; at least 1
  int64_t ahead;  // of the keys behind the block so many are asked for meanwhile
  char *to;       // on a cache line
};

// One score function's attention, and the blocking it wants. Without `rows`, most_few_rows and few_rows_keys do not
// apply: few rows take other kernels.
struct AttentionKernels {
  const char *set;                             // of instructions, by its name
  bool reads_pairs;                            // keys whose features lie in pairs
  int64_t split_keys;                          // where keys are split, they are split at multiples of it
  int64_t tile_rows;                           // rows of a task of `tile`
  int64_t tile_keys;                           // keys of a tile
  int64_t (*few_rows_keys)(int64_t rows);      // keys of a tile of `rows`
  int64_t (*most_few_rows)(int64_t head_dim);  // up to so many rows `rows` is the faster kernel
  int64_t (*tile_bands)(int64_t head_dim, int64_t value_dim);  // most multiples of tile_rows in one task of `tile`
  // Scratch memory that any of tile, rows, weights and scores needs for a task; `copies`: keys or values are copied
  // first.
  int64_t (*scratch_floats)(int64_t head_dim, int64_t value_dim, bool copies);

  // Bytes that hold the weights of tile_rows rows, from a cache line on; null: `tile` keeps none.
  int64_t (*kept_bytes)(int64_t key_len);

  void (*tile)(const AttentionTask &task);  // many rows: a block of rows against all their keys
  void (*rows)(const AttentionTask &task);  // few rows against a span of keys, bound by memory
  // Second passes, of tasks of tile_rows; both null: other kernels do these.
  void (*weights)(const AttentionTask &task);  // weights, from row_max and row_sum
  void (*scores)(const AttentionTask &task);   // scores themselves, of a problem without the rest

  float (*score_unit)(const AttentionProblem &problem);  // logits are an AttentionPartial's `max` times this
  // What is made of keys beforehand; null where nothing is.
  void (*finish_units)(const UnitRows &rows);
  void (*squared_norms)(const SquaredNorms &norms);
  // Keys and values packed for tasks that share them: bytes of a block of tile_keys of a head, and what packs one.
  // Null: as they lie.
  int64_t (*packed_block_bytes)(int64_t head_dim, int64_t value_dim);
  void (*pack)(const AttentionPack &pack);
  // The backward pass, of tasks of any rows and keys; all null: not by these kernels. Floats of scratch memory for a
  // task, to which come those for each key of a task without a part of its own.
  void (*gradients)(const GradientTask &task);
  int64_t (*gradient_floats)(int64_t head_dim, int64_t value_dim);
  int64_t (*gradient_key_floats)(int64_t head_dim, int64_t value_dim);
};

// Rows of floats that become one: out = sum over parts, in their order.
struct SumRow {
  const float *parts;
  int64_t count;
  int64_t stride;  // from part to part
  int64_t dim;
  void *out;
  Dtype out_type;
};

// Operations that take elements and rows one by one.
struct RowwiseKernels {
  const char *set;
  int64_t lanes;  // floats in a register
  void (*exp)(const ElementRun &run);
  void (*tanh)(const ElementRun &run);
  void (*activate)(const ElementRun &run, Activation kind);
  void (*softmax_rows)(const SoftmaxRows &rows);
  void (*log_softmax_rows)(const SoftmaxRows &rows);  // of all keys
  void (*softmax_columns)(const SoftmaxColumns &columns);
  void (*merge_row)(const MergeRow &row);
  void (*sum_row)(const SumRow &row);
  void (*norm_rows)(const NormRows &rows);  // at least one
  // What a row with nothing to attend gives, by the problem's policy.
  void (*fill_empty_row)(const AttentionProblem &problem, int64_t batch, int64_t kv_head, void *out);
  float (*empty_log_sum_exp)(const AttentionProblem &problem);
  // Rows of any element type as floats, and a row of floats as elements of any type.
  void (*widen_rows)(const void *from, Dtype dtype, int64_t stride, int64_t count, int64_t dim, float *to,
                     int64_t to_stride);
  void (*narrow_row)(const float *from, int64_t dim, void *to, Dtype dtype);
  void (*quantize_rows)(const ScaledRowList &rows);
  void (*dequantize_rows)(const ScaledRowList &rows);
  void (*encode_rows)(const EncodingRows &rows);
  void (*add_rows)(const AddedRows &rows);
  void (*rotary_table)(const RotaryTable &rows);
  void (*rotary_row_of_positions)(const RotaryTable &row);
  void (*rotary_given_row)(const GivenTurns &row);
  void (*rotate_rows)(const RotatedRows &rows);
  // Backward passes.
  void (*activation_gradients)(const ActivationGradients &all);
  void (*softmax_gradient_rows)(const SoftmaxGradientRows &rows);
  void (*softmax_gradient_columns)(const SoftmaxGradientColumns &columns);
  void (*norm_gradient_rows)(const NormGradientRows &rows);
  void (*merge_gradient_row)(const MergeGradientRow &row);
  void (*add_row)(const SummedRow &row);
};

}  // namespace fovea
