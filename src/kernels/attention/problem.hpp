// What an attention kernel is told: the problem that all tasks of a call share, and one task of it.
//
// Rows. The queries of all heads that share one key/value head are numbered together: row r of key/value head g is
// query r % query_len of head g * group + r / query_len. A task is a block of such rows, so few queries of many heads
// fill a tile and keys and values are read once for all of them.
#pragma once

#include "integers.hpp"
#include "kernels/attention/head_rows.hpp"
#include "kernels/random/dropout_problem.hpp"
#include "types.hpp"

namespace fovea {

// What the kernel compares: bilinear attention is a dot product once its queries or keys are projected, concat is
// additive.
enum class ScoreKind : int32_t { dot = 0, additive = 1, gaussian = 2 };
constexpr int score_kinds = 3;

// Additive: rows of units up to this size are kept as exponentials (scores/additive_units.hpp).
constexpr float largest_reach = 40.0f;

// From so many units on four share a reciprocal.
constexpr int64_t least_shared_units = 32;

// Gaussian: up to so many features all pairs get the squared difference (scores/gaussian.hpp).
constexpr int64_t most_differences = 16;

struct AttentionSizes {
  int64_t batch = 0, heads = 0, kv_heads = 0, group = 0, query_len = 0, key_len = 0;
  int64_t head_dim = 0, key_dim = 0, value_dim = 0;  // of queries, keys and values as they are given
  int64_t compared_dim = 0;                          // of queries and keys as kernels compare them

  // Where a head's queries begin among its group's rows.
  int64_t first_row_of(int64_t head) const { return query_len * (head % group); }
};

// What a score function reads besides queries and keys.
struct ScoreInputs {
  ScoreKind kind;
  // One number for each key, [batch][kv_head][key]. Gaussian: |k|^2, null where all pairs get the difference. Additive:
  // the key's reach (scores/additive_units.hpp).
  const float *key_scalars;
  HeadStrides key_scalars_strides;  // position: 1
  // Additive: query and key are rows of head_dim hidden units, padded with zeros to a multiple of 16; the vector v,
  // padded too.
  const float *vector;
  // See scores/additive_units.hpp: of a query that does not hold tangents; whether any may.
  float least_reach;
  bool takes_tangents;
  // Gaussian with a width for each head: 1 / sigma^2, [head]. Null when one width serves all and scale is divided by
  // its square.
  const float *inverse_squares;
};

// Which keys a query attends. Null pointers and false: no such rule.
struct KeyPattern {
  int64_t key_limit;  // no query attends keys from here on: the size of the mask or bias, if that is less than key_len
  const void *valid_lens;
  bool valid_lens_64bit;
  int64_t valid_lens_batch_stride, valid_lens_query_stride;
  const uint8_t *mask;
  HeadStrides mask_strides;
  // Query i stands at position position_offset + i, or query_offsets[batch entry] + i, and attends positions
  // [position - window_left, position + window_right].
  bool has_window_left, has_window_right;
  int64_t window_left, window_right;  // causal: window_right 0
  int64_t position_offset;
  const void *query_offsets;
  bool query_offsets_64bit;
  int64_t query_offsets_stride;
  bool leave_one_out;  // query i does not attend key leave_out_offset + i, or query_offsets[batch entry] + i
  int64_t leave_out_offset;
};

// What becomes of a score before the softmax. Null pointers: nothing is added.
struct LogitTerms {
  float scale = 0.0f;    // not 0
  float softcap = 0.0f;  // 0: none
  const void *bias = nullptr;
  HeadStrides bias_strides = {};
  Dtype bias_dtype = Dtype::f32;
  const float *alibi_slopes = nullptr;
  int64_t alibi_stride = 0;
  const float *sinks = nullptr;
  int64_t sinks_stride = 0;
};

// The values of FOVEA_SCORES_*.
enum class ScoresKind : int32_t { raw = 0, capped = 1, logits = 2 };

struct AttentionOutputs {
  void *out;
  HeadStrides out_strides;
  Dtype out_dtype;
  float *log_sum_exp;               // null: not wanted
  HeadStrides log_sum_exp_strides;  // position: per query
  void *weights;
  HeadStrides weights_strides;  // position: per query; head 0 when averaged
  Dtype weights_dtype;          // f32 when averaged
  bool weights_wanted;
  bool average_weights;
  void *scores;
  HeadStrides scores_strides;  // position: per query
  Dtype scores_dtype;
  bool scores_wanted;
  ScoresKind scores_kind;

  // Whether keys are wanted that no query attends.
  bool wants_all_keys() const { return scores_wanted && scores_kind != ScoresKind::logits; }
};

struct AttentionProblem {
  AttentionSizes sizes;
  HeadRows query, key, value;
  ScoreInputs score;
  KeyPattern pattern;
  LogitTerms logits;
  EmptyRows empty_rows;
  Dropout dropout;
  AttentionOutputs outputs;
  const char *packed = nullptr;  // keys and values as the kernels want them, [batch][kv_head][block]; null: as they lie
};

// Neither this nor what follows is ever a symbol: sets of instructions must not share compiled code.
// How many keys a query attends at most: never more than there are, even if the lengths were changed after they had
// been checked.
[[gnu::always_inline]] inline int64_t valid_len(const AttentionProblem &problem, int64_t batch, int64_t query) {
  const KeyPattern &pattern = problem.pattern;
  if (pattern.valid_lens == nullptr) return pattern.key_limit;
  const int64_t at = batch * pattern.valid_lens_batch_stride + query * pattern.valid_lens_query_stride;
  return clamp_to(read_integer(pattern.valid_lens, pattern.valid_lens_64bit, at), 0, pattern.key_limit);
}

// What is added to a query's number to give its position in its batch entry; `offset` where entries have none of their
// own.
[[gnu::always_inline]] inline int64_t query_offset(const KeyPattern &pattern, int64_t batch, int64_t offset) {
  if (pattern.query_offsets == nullptr) return offset;
  const int64_t own =
      read_integer(pattern.query_offsets, pattern.query_offsets_64bit, batch * pattern.query_offsets_stride);
  return clamp_to(own, -largest_length, largest_length);
}

// A sink in the unit of scores (logits are scores times `unit`). A sink too large for the unit, infinity too, becomes
// the largest number: no score is above it, so all weights are 0 however keys are split, and its log-sum-exp is known.
// A finite sink too small for it becomes the least number; -infinity is no logit at all.
[[gnu::always_inline]] inline float sink_in_units(float sink, float unit) {
  const float in_units = sink / unit;
  if (!__builtin_isinf(in_units) || sink == -__builtin_inff()) return in_units;
  return __builtin_copysignf(__FLT_MAX__, in_units);
}

// The log-sum-exp of a row whose sink may have been changed so, from the log-sum-exp of the sums in that unit.
[[gnu::always_inline]] inline float log_sum_exp_beside(float sink, float unit, float log_sum_exp) {
  const bool was_changed = __builtin_isinf(sink / unit) && sink != -__builtin_inff();
  if (!was_changed || !(log_sum_exp < __builtin_inff())) return log_sum_exp;
  const bool alone = sink > 0.0f || log_sum_exp == -__FLT_MAX__ * unit;
  return alone ? sink : log_sum_exp;
}

// Keys from here on are attended by no query of the batch entry.
inline int64_t longest_valid_len(const AttentionProblem &problem, int64_t batch) {
  const int64_t lengths =
      problem.pattern.valid_lens_query_stride == 0 ? min_of(problem.sizes.query_len, 1) : problem.sizes.query_len;
  int64_t longest = 0;
  for (int64_t query = 0; query < lengths; ++query) longest = max_of(longest, valid_len(problem, batch, query));
  return longest;
}

// The most features of a value: a kernel may keep that many on its stack.
constexpr int64_t largest_value_dim = 1024;

// Elements of a row of keys as kernels read it: hidden units are padded.
[[gnu::always_inline]] inline int64_t key_row_size(const AttentionProblem &problem) {
  const int64_t features = problem.sizes.compared_dim;
  return problem.score.kind == ScoreKind::additive ? padded_units(features) : features;
}

// A partial result of a split task goes to row r of these, to be merged; final results go to the problem's outputs.
struct AttentionPartial {
  float *out;  // [rows][value_dim]; null: final
  float *max;  // [rows], in units of score_unit, and the sums relative to it
  float *sum;
};

// Rows of one key/value head.
struct TaskRows {
  int64_t batch, kv_head;
  int64_t row_begin, row_count;
};

struct AttentionTask : TaskRows {
  const AttentionProblem *problem;
  int64_t key_begin, key_end;  // the span of keys this task may attend; all of them unless split
  bool first_split;            // takes part in the sink
  AttentionPartial partial;
  // Softmax state of the head's rows, from row 0 on, for the second pass: the maximum in units of log 2, and 1 / sum.
  float *row_max;
  float *row_scale;
  // What the same thread most often computes next, to be asked for meanwhile. Without rows: not known, or in its
  // caches.
  TaskRows next;
  void *kept_weights;  // room for weights that this task writes itself; null: the second pass does, or none are wanted
  void *scratch;
};

}  // namespace fovea
