// How a call to attention is carried out: path, tiles, tasks, threads, memory. Shapes alone decide all but the number
// of threads, so the result does not depend on the machine's load or size.
#pragma once

#include "ops/attention/call.hpp"
#include "ops/attention/score_plan.hpp"
#include "ops/attention/task_grid.hpp"
#include "runtime/context.hpp"
#include "runtime/memory_layout.hpp"

namespace fovea {

struct AttentionPlan {
  const Context *context;
  const Kernels *kernels;
  const AttentionKernels *passes;  // that write weights and scores; null: neither is wanted
  AttentionProblem problem;
  ScorePlan score;
  TaskGrid grid;
  Fit better_pairs;    // why all is bfloat16 and products of pairs are not taken
  bool tiles_refused;  // attention would be on them
  bool asks_ahead;     // for the next task's rows and keys, which are in no cache
  int workers;
  // The workspace.
  MemoryPart<float> scratch;                                // a copy for each worker
  MemoryPart<float> partial_out, partial_max, partial_sum;  // of split keys
  MemoryPart<float> own_partials;                           // of a schedule's tasks, a copy for each worker
  MemoryPart<float> row_max, row_scale;                     // for the weights
  MemoryPart<char> kept_weights;                            // likewise, a copy for each worker, if tasks write them
  MemoryPart<char> packed;  // keys and values in the order of the kernels, if they have one
  MemoryPart<char> score_memory;
  size_t workspace_size;  // all of it, and room to align

  int64_t pack_blocks() const { return ceil_div(grid.key_len, grid.kernels->tile_keys); }  // of each head
};

// Whether keys are read as pairs where they lie, or copied anyway.
inline bool keys_in_pairs(const HeadRows &keys) {
  return keys.dtype == Dtype::f32 || keys.has_scales() || keys.in_whole_pairs();
}

// Whether products of bytes take rows: 64 features at a time, with scales for 16, 32 or so many times 64, by fours;
// those of a row or its half count as four.
inline bool in_bytes(const HeadRows &rows, int64_t dim) {
  if (!rows.has_scales() || dim % 64 != 0) return false;
  const int64_t groups = dim / rows.scales.features;
  const int64_t features = groups <= 2 ? dim / 4 : rows.scales.features;
  return (groups <= 2 || groups % 4 == 0) && (features % 64 == 0 || features == 16 || features == 32);
}

// Rows of 8 or 4 bits are read as whatever queries are.
inline Dtype read_as(const HeadRows &rows, Dtype query) { return rows.has_scales() ? query : rows.dtype; }

// call has passed its checks, `checked` is what they made of it.
[[nodiscard]] Status plan_attention(const Context &context, const AttentionCall &call, const AttentionProblem &checked,
                                    AttentionPlan *plan);

// call: the plan's, with data. workspace: at least plan.workspace_size bytes.
void run_attention(const AttentionPlan &plan, const AttentionCall &call, void *workspace);

// As snprintf.
size_t describe_attention(const AttentionPlan &plan, char *text, size_t size);

}  // namespace fovea

// What the C API calls a plan: the call it was made for and how it will be carried out. That of a backward pass derives
// from this (ops/gradients/gradients.cpp) and uses the call alone.
struct fovea_plan {
  fovea::AttentionCall call = {};
  fovea::AttentionPlan attention = {};

  virtual ~fovea_plan() = default;
  [[nodiscard]] virtual fovea::Status run(const fovea_attention_buffers *buffers, void *workspace, size_t size) const;
  virtual size_t workspace_size() const { return attention.workspace_size; }
  virtual size_t describe(char *text, size_t size) const { return describe_attention(attention, text, size); }
};
