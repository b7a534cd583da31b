// How attention's backward pass is carried out: tiles, tasks, threads, memory. Shapes alone decide all but the number
// of threads.
#pragma once

#include "ops/gradients/projections.hpp"

namespace fovea {

// One task's rows and keys.
struct GradientCell {
  TaskRows rows;
  int64_t head;  // among [batch][kv_head]
  int64_t row_split, key_split;
  int64_t key_begin, key_end;
};

// Heads, their rows and their keys, cut into tasks. Where keys are split, so are the sums of queries, and the other way
// round.
struct GradientGrid {
  int64_t heads = 0, kv_heads = 0;
  int64_t rows = 0, rows_per_split = 1, row_splits = 1;
  int64_t keys = 0, keys_per_split = 1, key_splits = 1;

  int64_t tasks() const { return heads * row_splits * key_splits; }
  // The longest first: first keys of a causal head are attended by the most rows, its last rows attend the most keys.
  GradientCell cell(int64_t task) const;
};

struct GradientPlan {
  AttentionPlan scores;  // of the forward call: its problem and what its score function makes beforehand
  GradientProblem problem;
  const AttentionKernels *kernels = nullptr;
  GradientGrid grid;
  // Sizes of the bias's gradient, if it is wanted.
  int64_t bias_batch = 0, bias_heads = 0, bias_queries = 0, bias_keys = 0;
  ProjectionPlan projections;
  int workers = 1;
  // The workspace.
  MemoryPart<float> scratch;                            // a copy for each worker
  MemoryPart<float> query_parts, key_parts;             // of split keys and rows
  MemoryPart<float> slope_sums, width_sums, sink_sums;  // of each row, by splits of keys
  MemoryPart<float> weight_sums;
  MemoryPart<float> vector_parts;  // of each task
  size_t workspace_size = 0;

  // What a part of a task's keys needs.
  int64_t key_part_floats() const;
  int64_t bias_row_blocks() const;
  int64_t bias_tasks() const;
};

[[nodiscard]] Status plan_gradients(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                                    const GradientCall &gradients, const GradientProblem &problem, GradientPlan *plan);

// Calls are the plan's, with data. workspace: at least plan.workspace_size bytes.
void run_gradients(const GradientPlan &plan, const AttentionCall &call, const GradientCall &gradients, void *workspace);

// As snprintf.
size_t describe_gradients(const GradientPlan &plan, char *text, size_t size);

}  // namespace fovea
