// A step as a schedule holds it: its sequences, their pages, and the tasks that they are cut into.
#pragma once

#include "ops/attention/call.hpp"
#include "runtime/attention_rows.hpp"

namespace fovea {

// Tokens of a tree of drafts.
constexpr int64_t most_drafts = 64;

struct RaggedSequence {
  int64_t query_start, query_len;
  int64_t key_start, key_len;  // key_start: of packed keys
  const int32_t *pages;        // null: keys are packed
  const uint8_t *tree;         // masks of its tokens, most_drafts bytes each; null: it is no tree
  // How it is cut.
  const AttentionRow *kernels;  // null: it has no rows
  int64_t rows, rows_per_task, row_blocks;
  int64_t first_split, splits;  // of the keys. A tree's own keys are a split of theirs, the last
  int64_t keys_per_split;
  int64_t partial;        // the first of its rows among the step's partials
  int64_t packed;         // where its packed blocks begin, in bytes
  int64_t packed_blocks;  // of each head; 0: kernels read keys as they lie
};

// What the heads of a sequence do alike: a task is that of one head.
struct RaggedUnit {
  int32_t sequence, row_block, split;
};

// A split's keys.
struct SplitKeys {
  int64_t begin, end;
  bool is_tree;
};
inline SplitKeys split_of(const RaggedSequence &sequence, int64_t split) {
  const int64_t before = sequence.tree == nullptr ? sequence.key_len : sequence.key_len - sequence.query_len;
  if (sequence.tree != nullptr && split + 1 == sequence.splits) return {before, sequence.key_len, true};
  const int64_t begin = (sequence.first_split + split) * sequence.keys_per_split;
  return {begin, min_of(begin + sequence.keys_per_split, before), false};
}

struct RaggedStep {
  int64_t sequence_count = 0, tokens = 0, keys = 0;
  RaggedSequence *sequences = nullptr;
  int32_t *page_ids = nullptr;
  int32_t *positions = nullptr;   // of tokens
  uint8_t *tree_masks = nullptr;  // likewise, whether they attend the tokens of their sequence
  RaggedUnit *units = nullptr;    // of attention
  RaggedUnit *packs = nullptr;    // row_block: a block of keys
  int32_t *merges = nullptr;      // sequences whose splits are merged
  int64_t unit_count = 0, pack_count = 0, merge_count = 0;
  int64_t partial_rows = 0, packed_bytes = 0;
  bool has_many_rows = false;
  // Two sequences that write into one page, if there are any; else -1.
  int64_t first_writer = -1, second_writer = -1, shared_page = -1;
};

}  // namespace fovea
