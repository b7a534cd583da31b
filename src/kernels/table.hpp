// The table that each instruction set fills in: one function pointer per kernel. A kernel does one task on memory it is
// given: it does not allocate, start threads or fail.
#pragma once

#include "kernels/attention_problem.hpp"
#include "kernels/layer_norm_problem.hpp"
#include "kernels/matmul_problem.hpp"
#include "kernels/positions_problem.hpp"
#include "types.hpp"

namespace fovea {

struct SoftmaxRow {
  const float *x;
  float *out;         // may be x
  int64_t valid_len;  // keys that take part; the others get 0
};

struct SoftmaxRows {
  const SoftmaxRow *row;
  int64_t count;
  int64_t key_len;
  EmptyRows empty_rows;
  bool stream;  // write past the caches: out is large and is not x
};

struct MergeRow {
  const float *outs;  // part s at outs + s * out_stride
  const float *lses;  // part s at lses[s * lse_stride]
  // Null, or the parts' sums, with lses' stride: then lses are their largest scores in `unit`, and a part's log-sum-exp is
  // unit * lses[s] + log sums[s], which would be rounded to its own size.
  const float *sums;
  float unit;
  float *out;
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
};

struct SquaredNorms {
  const float *rows;
  int64_t stride;
  int64_t count;
  int64_t dim;
  float *out;  // [count]
};

struct Kernels {
  const char *name;
  int64_t lanes;  // floats in a register
  AttentionShape attention;
  MatmulKernels matmul;
  MatmulKernels projection;  // of a score function's queries and keys: out has room for whole registers of columns

  void (*exp)(const float *x, float *out, int64_t count);   // in place allowed
  void (*tanh)(const float *x, float *out, int64_t count);  // in place allowed
  void (*softmax_rows)(const SoftmaxRows &rows);
  void (*merge_row)(const MergeRow &row);
  void (*norm_rows)(const NormRows &rows);               // at least one
  void (*attention_tile)(const AttentionTask &task);     // many rows: a block of rows against all their keys
  void (*attention_rows)(const AttentionTask &task);     // few rows against a span of keys, bound by memory
  void (*attention_weights)(const AttentionTask &task);  // second pass: weights from row_max and row_sum
  // What a row with nothing to attend gives, by the problem's policy.
  void (*fill_empty_row)(const AttentionProblem &problem, int64_t batch, int64_t kv_head, float *out);
  float (*empty_log_sum_exp)(const AttentionProblem &problem);
  float (*score_unit)(const AttentionProblem &problem);  // logits are an AttentionPartial's `max` times this
  void (*finish_units)(const UnitRows &rows);
  void (*squared_norms)(const SquaredNorms &norms);
  void (*encode_rows)(const EncodingRows &rows);
  void (*add_rows)(const AddedRows &rows);
  void (*rotary_table)(const RotaryTable &rows);
  void (*rotate_rows)(const RotatedRows &rows);
};

extern const Kernels kernels_base;
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
extern const MatmulKernels projection_kernels_amx;  // the rest of the set is avx512's

}  // namespace fovea
