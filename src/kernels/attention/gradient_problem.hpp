// What the kernels of attention's backward pass are told: the problem that all tasks of a call share, and one task of
// it.
#pragma once

#include "kernels/attention/problem.hpp"

namespace fovea {

// Rows of a gradient to be written. Null: not wanted.
struct GradientRows {
  void *data = nullptr;
  HeadStrides strides = {};
  Dtype dtype = Dtype::f32;
  bool wanted = false;  // while there is no data yet
};

// Numbers of each query's row: position is per query.
struct RowNumbers {
  const float *data = nullptr;
  HeadStrides strides = {};
};

struct GradientProblem {
  // The forward call's, whose out and log_sum_exp are read.
  AttentionProblem scores;
  // A dot product of rows of grad_out with values, which gives the gradients of weights.
  AttentionProblem values;
  RowNumbers grad_log_sum_exp;
  // The gradient of weights, where they were returned. Each head has a share in that of averaged ones.
  const void *grad_weights = nullptr;
  float grad_weights_factor = 1.0f;
  HeadStrides grad_weights_strides = {};
  Dtype grad_weights_dtype = Dtype::f32;
  // Gradients of what kernels compare: rows of compared_dim. The caller's points times point_factor are compared.
  GradientRows query, key, value;
  float point_factor = 1.0f;
  bool wants_slopes = false, wants_widths = false, wants_sinks = false, wants_vector = false;

  bool wants_scores() const { return query.wanted || key.wanted || wants_slopes || wants_widths || wants_vector; }
};

// The sums that a task leaves of each of its rows, [row of the head]; null: not wanted.
struct GradientRowSums {
  float *slope = nullptr;  // of an ALiBi slope
  float *width = nullptr;  // of each gradient of a raw score times the score
  float *sink = nullptr;   // of a sink
};

// What a task computes.
//   gradients    of queries, keys and values, and what is summed up for each row
//   weight_sums  the sums of weights times their gradients, of each row: GradientTask::weight_sums of the other two
//   bias         a block of the bias's gradient
enum class GradientPart { gradients, weight_sums, bias };

// Keys of a block of the bias's gradient, at most. The sums of it are so many tiles' rows in scratch memory.
constexpr int64_t gradient_bias_keys = 768;

// A block of the bias's gradient: of one head and some queries of one batch entry, or summed up over all of them along
// axes of size 1. Its keys are the task's.
struct BiasBlock {
  int64_t batch, batch_end;
  int64_t head, head_end;
  int64_t query, query_end;
  bool sums_queries;
  void *out;           // the first row, at key 0
  int64_t row_stride;  // in elements
  Dtype dtype;
};

// Rows of one key/value head against some of its keys.
struct GradientTask {
  GradientPart part;
  const GradientProblem *problem;
  AttentionTask scores;  // the rows and the keys; of problem->scores
  BiasBlock bias;        // whose rows are not those of `scores`
  float *query_part;     // [row of the task][compared_dim], to be added up over splits of keys; null: final
  float *key_part;       // [key of the task][gradient_key_floats], to be added up over splits of rows; null: final
  float *vector_part;    // [compared_dim], to be added up over all tasks; null: not wanted
  GradientRowSums sums;
  float *weight_sums;  // [row of the first head on], sum_j weight_j grad_weight_j; null: no weights were returned
};

}  // namespace fovea
