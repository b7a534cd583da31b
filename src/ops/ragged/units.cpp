// Lists the tasks of a step: many rows first, whose tasks are long.
#include "ops/ragged/schedule.hpp"

namespace fovea {
namespace {

void add_unit(int64_t entry, int64_t row_block, int64_t split, RaggedStep *step) {
  step->units[step->unit_count++] = {static_cast<int32_t>(entry), static_cast<int32_t>(row_block),
                                     static_cast<int32_t>(split)};
}

void add_units(const RaggedSequence &sequence, int64_t entry, bool last_rows_first, RaggedStep *step) {
  for (int64_t n = 0; n < sequence.row_blocks; ++n) {
    const int64_t block = last_rows_first ? sequence.row_blocks - 1 - n : n;
    const int64_t units = sequence.merges_itself ? 1 : sequence.splits;
    for (int64_t split = 0; split < units; ++split) add_unit(entry, block, split, step);
  }
}

// Room for what its tasks leave to be merged, and who merges it.
void add_partials(const AttentionSizes &sizes, int64_t entry, RaggedStep *step) {
  RaggedSequence &sequence = step->sequences[entry];
  if (sequence.merges_itself) {
    step->task_partial_rows = max_of(step->task_partial_rows, sequence.splits * sequence.rows_per_task);
  }
  if (!leaves_partials(sequence)) return;
  sequence.partial = step->partial_rows;
  step->partial_rows += sizes.kv_heads * sequence.splits * sequence.rows;
  if (!sequence.is_prefix) step->merges[step->merge_count++] = static_cast<int32_t>(entry);
  if (sequence.prefix >= 0) {
    step->most_parts = max_of(step->most_parts, step->sequences[sequence.prefix].splits + sequence.splits);
  }
}

void add_packing(const AttentionSizes &sizes, int64_t entry, RaggedStep *step) {
  RaggedSequence &sequence = step->sequences[entry];
  const AttentionKernels &kernels = *sequence.kernels->kernels;
  if (kernels.pack == nullptr || sequence.row_blocks == 1) return;  // else tasks share none
  sequence.packed_blocks = ceil_div(sequence.key_len, kernels.tile_keys);
  sequence.packed = step->packed_bytes;
  step->packed_bytes +=
      sizes.kv_heads * sequence.packed_blocks * kernels.packed_block_bytes(sizes.compared_dim, sizes.value_dim);
  for (int64_t block = 0; block < sequence.packed_blocks; ++block) {
    step->packs[step->pack_count++] = {static_cast<int32_t>(entry), static_cast<int32_t>(block), 0};
  }
}

}  // namespace

void list_units(const AttentionProblem &problem, RaggedStep *step) {
  step->unit_count = step->pack_count = step->merge_count = 0;
  step->partial_rows = step->packed_bytes = step->task_partial_rows = step->most_parts = 0;
  for (const AttentionPath path : {AttentionPath::many_rows, AttentionPath::few_rows}) {
    for (int64_t entry = 0; entry < step->entry_count(); ++entry) {
      const RaggedSequence &sequence = step->sequences[entry];
      if (sequence.kernels == nullptr || sequence.kernels->path != path) continue;
      add_units(sequence, entry, problem.pattern.has_window_right, step);
      add_partials(problem.sizes, entry, step);
      if (path == AttentionPath::many_rows) add_packing(problem.sizes, entry, step);
    }
  }
}

}  // namespace fovea
