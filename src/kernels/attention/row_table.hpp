// What a tile needs to know of its rows: where each query and output lies, and which keys it may attend. Causal,
// window, valid lengths and key splits all come down to one interval of keys per row.
#pragma once

#include "kernels/attention/problem.hpp"
#include "kernels/random/philox.hpp"
#include "kernels/shared_rows.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// The smallest range that holds both.
FOVEA_INLINE KeyRange cover(const KeyRange &a, const KeyRange &b) {
  return {min_of(a.first, b.first), max_of(a.last, b.last)};
}

// Walks the rows of a task in order.
struct QueryCursor {
  const AttentionProblem &problem;
  int64_t batch, head, query;
  int64_t offset;  // the position of query 0

  FOVEA_INLINE QueryCursor(const AttentionProblem &p, int64_t b, int64_t kv_head, int64_t row)
      : problem(p),
        batch(b),
        head(kv_head * p.sizes.group),
        query(row),
        offset(query_offset(p.pattern, b, p.pattern.position_offset)) {
    if (query < p.sizes.query_len) return;  // a division takes as long as a small head's softmax
    head += row / p.sizes.query_len;
    query = row % p.sizes.query_len;
  }
  FOVEA_INLINE void advance() {
    if (++query < problem.sizes.query_len) return;
    query = 0;
    ++head;
  }
  FOVEA_INLINE int64_t at(const HeadStrides &strides) const { return strides.at(batch, head, query); }
  FOVEA_INLINE int64_t position() const { return offset + query; }
};

FOVEA_INLINE KeyRange key_range(const QueryCursor &row, int64_t key_begin, int64_t key_end) {
  const AttentionProblem &problem = row.problem;
  KeyRange range = {key_begin, min_of(key_end, valid_len(problem, row.batch, row.query))};
  if (problem.pattern.has_window_left) range.first = max_of(range.first, row.position() - problem.pattern.window_left);
  if (problem.pattern.has_window_right)
    range.last = min_of(range.last, row.position() + problem.pattern.window_right + 1);
  if (range.first >= range.last) return {key_begin, key_begin};
  return range;
}

// Per-row facts of up to `rows` rows, in arrays whose lanes are rows. Unused rows attend nothing.
template <int64_t rows>
struct RowTable {
  alignas(64) int32_t first_key[rows];
  alignas(64) int32_t last_key[rows];
  alignas(64) int32_t left_out[rows];      // the one key not attended; -1: none
  alignas(64) float slope[rows];           // ALiBi
  alignas(64) int32_t position[rows];      // of the query
  alignas(64) uint32_t philox[3][rows];    // dropout: PhiloxRow's words
  alignas(64) float inverse_square[rows];  // Gaussian: 1 / sigma^2
  const void *query[rows];
  const void *bias[rows];  // row of the bias; null: none
  const uint8_t *mask[rows];
  float sink[rows];  // in score units; only if the problem has sinks
  int64_t count;
  int64_t task_rows;                  // of the whole task
  int64_t vectors;                    // registers that hold `count` rows
  KeyRange any, all;                  // keys attended by at least one row, by every row
  KeyRange vector_any[rows / lanes];  // by at least one row of a register

  FOVEA_INLINE void fill(const AttentionTask &task, int64_t row_begin, int64_t row_count) {
    const AttentionProblem &problem = *task.problem;
    count = row_count;
    task_rows = task.row_count;
    vectors = ceil_div(row_count, lanes);
    // In local variables, with a copy of what lies where: the compiler must assume that any store changes members.
    const KeyRange none = {task.key_end, task.key_begin};
    KeyRange some = none, every = {task.key_begin, task.key_end};
    const HeadRows queries = problem.query;
    QueryCursor row(problem, task.batch, task.kv_head, row_begin);
    int64_t r = 0;
    for (int64_t v = 0; v < vectors; ++v) {
      for (int64_t lane = 0; lane < lanes; ++lane) first_key[v * lanes + lane] = last_key[v * lanes + lane] = 0;
      KeyRange some_here = none;
      for (const int64_t end = min_of(row_count, r + lanes); r < end; ++r, row.advance()) {
        const KeyRange range = key_range(row, task.key_begin, task.key_end);
        first_key[r] = static_cast<int32_t>(range.first);
        last_key[r] = static_cast<int32_t>(range.last);
        query[r] = element_at(queries.data, queries.dtype, row.at(queries.strides));
        if (range.first < range.last) some_here = cover(some_here, range);
        every = {max_of(every.first, range.first), min_of(every.last, range.last)};
      }
      vector_any[v] = some_here;
      some = cover(some, some_here);
    }
    any = some;
    all = every;
    fill_extras(task, row_begin);
    if (task.problem->dropout.threshold != 0) fill_dropout(task, row_begin);
  }

  // What only some calls need.
  FOVEA_INLINE void fill_extras(const AttentionTask &task, int64_t row_begin) {
    const AttentionProblem &problem = *task.problem;
    if (problem.logits.bias == nullptr && problem.pattern.mask == nullptr && problem.logits.alibi_slopes == nullptr &&
        problem.logits.sinks == nullptr && problem.score.inverse_squares == nullptr && !problem.pattern.leave_one_out) {
      return;
    }
    QueryCursor row(problem, task.batch, task.kv_head, row_begin);
    const int64_t leave_out = query_offset(problem.pattern, task.batch, problem.pattern.leave_out_offset);
    for (int64_t r = 0; r < count; ++r, row.advance()) {
      bias[r] = problem.logits.bias == nullptr
                    ? nullptr
                    : element_at(problem.logits.bias, problem.logits.bias_dtype, row.at(problem.logits.bias_strides));
      mask[r] = problem.pattern.mask == nullptr ? nullptr : problem.pattern.mask + row.at(problem.pattern.mask_strides);
      slope[r] = problem.logits.alibi_slopes == nullptr
                     ? 0.0f
                     : problem.logits.alibi_slopes[row.head * problem.logits.alibi_stride];
      inverse_square[r] = problem.score.inverse_squares == nullptr ? 1.0f : problem.score.inverse_squares[row.head];
      sink[r] = problem.logits.sinks == nullptr ? 0.0f : problem.logits.sinks[row.head * problem.logits.sinks_stride];
      position[r] = static_cast<int32_t>(row.position());
      const int64_t out = leave_out + row.query;
      left_out[r] =
          problem.pattern.leave_one_out && out >= 0 && out < problem.sizes.key_len ? static_cast<int32_t>(out) : -1;
    }
    for (int64_t r = count; r < vectors * lanes; ++r) {
      slope[r] = 0.0f;
      inverse_square[r] = 0.0f;
      position[r] = 0;
      left_out[r] = -1;
    }
  }

  FOVEA_INLINE void fill_dropout(const AttentionTask &task, int64_t row_begin) {
    const PhiloxKey key(task.problem->dropout.seed);
    QueryCursor row(*task.problem, task.batch, task.kv_head, row_begin);
    for (int64_t r = 0; r < count; ++r, row.advance()) {
      const PhiloxRow random(static_cast<uint32_t>(row.query), static_cast<uint32_t>(row.head), key);
      philox[0][r] = random.word_0;
      philox[1][r] = random.word_2;
      philox[2][r] = random.word_3;
    }
    for (int64_t r = count; r < vectors * lanes; ++r) philox[0][r] = philox[1][r] = philox[2][r] = 0;
  }

  FOVEA_INLINE LogitRows logit_rows() const {
    return {.first_key = first_key,
            .last_key = last_key,
            .left_out = left_out,
            .position = position,
            .slope = slope,
            .inverse_square = inverse_square,
            .philox = {philox[0], philox[1], philox[2]},
            .bias = bias,
            .mask = mask,
            .count = count};
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
