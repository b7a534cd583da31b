// Tasks as data: batch entries that are cut alike, which rows of theirs meet which keys, and by which kernels. The
// order of tasks stands here alone.
#pragma once

#include "runtime/attention_rows.hpp"

namespace fovea {

// A task's rows and keys.
struct TaskCell {
  TaskRows rows;
  int64_t head;   // among [entry][kv_head]
  int64_t split;  // of the keys
  int64_t key_begin, key_end;
};

struct TaskGrid {
  const AttentionKernels *kernels = nullptr;
  AttentionPath path = AttentionPath::few_rows;
  int64_t entries = 0, kv_heads = 0;
  int64_t query_len = 0;
  int64_t rows = 0;  // of queries that share a key/value head
  int64_t rows_per_task = 1, row_blocks = 0;
  int64_t key_len = 0;
  int64_t keys_per_split = 1, splits = 1;
  bool last_rows_first = false;

  void set_rows_per_task(int64_t count) {
    rows_per_task = count;
    row_blocks = ceil_div(rows, count);
  }
  void set_keys_per_split(int64_t count) {
    keys_per_split = count;
    splits = max_of(1, ceil_div(key_len, count));
  }

  int64_t heads() const { return entries * kv_heads; }
  int64_t tasks() const { return heads() * row_blocks * splits; }

  // Tasks run over splits, then row blocks, then heads. The longest block of a causal head comes first, so that what is
  // left at the end is short.
  [[gnu::always_inline]] TaskCell cell(int64_t task) const {
    const auto take = [&task](int64_t count) {  // the usual one of one needs no division
      if (count == 1) return int64_t{0};
      const int64_t digit = task % count;
      task /= count;
      return digit;
    };
    TaskCell cell = {};
    cell.split = take(splits);
    const int64_t block = take(row_blocks);
    cell.head = task;
    cell.rows.kv_head = take(kv_heads);
    cell.rows.batch = task;
    cell.rows.row_begin = (last_rows_first ? row_blocks - 1 - block : block) * rows_per_task;
    cell.rows.row_count = min_of(rows_per_task, rows - cell.rows.row_begin);
    cell.key_begin = cell.split * keys_per_split;
    cell.key_end = min_of(cell.key_begin + keys_per_split, key_len);
    return cell;
  }

  // Blocks of queries for what walks all heads of each, as averages of weights do.
  int64_t query_blocks() const { return ceil_div(query_len, rows_per_task); }
  int64_t query_tasks() const { return entries * query_blocks(); }

  // Their rows in one head.
  TaskRows query_block(int64_t task, int64_t head, int64_t heads_each) const {
    const int64_t query = task % query_blocks() * rows_per_task;
    return {.batch = task / query_blocks(),
            .kv_head = head / heads_each,
            .row_begin = head % heads_each * query_len + query,
            .row_count = min_of(rows_per_task, query_len - query)};
  }
};

}  // namespace fovea
