// Multi-head attention as it was called, and how it will be carried out.
#pragma once

#include "ops/attention/plan.hpp"
#include "ops/multi_head/multi_head.hpp"
#include "ops/products/product.hpp"
#include "ops/ragged/schedule.hpp"
#include "runtime/memory_layout.hpp"

namespace fovea {

// An input or output, [B,L,E].
struct Sequences {
  void *data;
  Dtype dtype;
  int64_t batch, length, features;
  int64_t batch_stride, row_stride;
};

// Projected rows, or some columns of them, in the workspace or where they are kept.
struct ProjectedRows {
  MemoryPart<char> part;
  Dtype dtype;
  int64_t column, row_stride;
  void *kept = nullptr;

  void *in(void *memory) const {
    if (kept != nullptr) return element_at(kept, dtype, column);
    return memory == nullptr ? nullptr : element_at(part.in(memory), dtype, column);
  }
};

struct MultiHeadCall;

// An input, or attention's rows, through a weight or through several that lie side by side.
struct Projection {
  Product product;
  const fovea_mha_weights::PackedLinear *weight;  // the first
  Sequences MultiHeadCall::*x;                    // of the last projection null
  ProjectedRows out;                              // likewise
};

struct MultiHeadCall {
  const Context *context;
  const fovea_mha_weights *weights;
  const fovea_mha_parameters *parameters;  // of weights that are used once; else null
  fovea_mha_options options;
  fovea_rotary_options rotary;
  Sequences query, key, value, out;
  bool has_data;                      // else it is being planned
  bool planned;                       // a plan's run
  bool backward;                      // what a backward pass computes again: with float32 between steps
  bool idle;                          // one that writes nothing, and looks at no values
  bool one_input;                     // of all three projections
  bool one_memory;                    // of keys and values
  bool attends;                       // there are queries
  bool projects_keys;                 // else pages have them
  bool needs_keys;                    // of this call: to attend to, or for pages
  fovea_attention_options attention;  // with a schedule
  fovea_tensor positions;             // of its tokens
  bool medium;                        // float32 may be rounded to bfloat16
  Dtype between;                      // what projections hand to attention, and attention to the last one
  int input_count;                    // of projections before attention
  Projection input[3], last;
  TensorArgument kept;            // of options; null: nothing is kept
  fovea_tensor kept_log_sum_exp;  // there
  bool attention_keeps;           // writes it
  MemoryLayout layout;
  ProjectedRows query_rows, key_rows, value_rows, concat_rows;
  MemoryPart<float> copies;  // of a projection's rows
  MemoryPart<char> rotary_memory;
  MemoryPart<char> attention_memory;
  fovea_plan plan;
};

struct HeadTensors {
  fovea_tensor query, key, value, out;
};

// The rows as attention sees them; memory null: while planning.
HeadTensors head_tensors(const MultiHeadCall &call, void *memory);

// Memory, and attention itself, of a call that has been checked but for attention's options.
[[nodiscard]] Status plan_multi_head(MultiHeadCall *call);

// Checks the data of a planned call and computes, as far as what attention gives. memory: of call->layout, null only
// where that is empty.
[[nodiscard]] Status run_heads(const MultiHeadTensors &tensors, void *memory, MultiHeadCall *call);
// And then out.
[[nodiscard]] Status run_multi_head(const MultiHeadTensors &tensors, void *memory, MultiHeadCall *call);

}  // namespace fovea
