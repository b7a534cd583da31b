// A step as a schedule holds it: its sequences, their pages, and the tasks that they are cut into.
#pragma once

#include "ops/attention/call.hpp"
#include "runtime/attention_rows.hpp"

namespace fovea {

struct RaggedSequence {
  int64_t query_start, query_len;
  int64_t key_start, key_len;  // key_start: of packed keys
  const int32_t *pages;        // null: keys are packed
  // How it is cut.
  const AttentionRow *kernels;  // null: it has no rows
  int64_t rows, rows_per_task, row_blocks;
  int64_t first_split, splits;  // of the keys
  int64_t partial;              // the first of its rows among the step's partials
  int64_t packed;               // where its packed blocks begin, in bytes
  int64_t packed_blocks;        // of each head; 0: kernels read keys as they lie
};

// What the heads of a sequence do alike: a task is that of one head.
struct RaggedUnit {
  int32_t sequence, row_block, split;
};

struct RaggedStep {
  int64_t sequence_count = 0, tokens = 0, keys = 0;
  RaggedSequence *sequences = nullptr;
  int32_t *page_ids = nullptr;
  int32_t *positions = nullptr;  // of tokens
  RaggedUnit *units = nullptr;   // of attention
  RaggedUnit *packs = nullptr;   // row_block: a block of keys
  int32_t *merges = nullptr;     // sequences whose splits are merged
  int64_t unit_count = 0, pack_count = 0, merge_count = 0;
  int64_t partial_rows = 0, packed_bytes = 0;
  bool has_many_rows = false;
  // Two sequences that write into one page, if there are any; else -1.
  int64_t first_writer = -1, second_writer = -1, shared_page = -1;
};

}  // namespace fovea
