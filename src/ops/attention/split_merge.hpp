// Merges what splits of a head's keys left of its rows.
#pragma once

#include "kernels/kernel_table.hpp"

namespace fovea {

// Where the partials of one head's rows lie, [split][row].
struct SplitRows {
  const float *out;  // with value_dim features
  const float *max, *sum;
  int64_t splits, rows;
  int64_t first_row = 0;  // which row of the head the first one is
};

// In the order of splits, into the outputs of the problem. `kernels` made the partials.
void merge_splits(const RowwiseKernels &rowwise, const AttentionKernels &kernels, const AttentionProblem &problem,
                  const SplitRows &partials, int64_t batch, int64_t kv_head);

}  // namespace fovea
