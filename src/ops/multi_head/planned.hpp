// Planned multi-head attention: a call that was checked and planned once, run with other data.
#pragma once

#include "ops/multi_head/call.hpp"

struct fovea_mha_plan {
  fovea::MultiHeadCall call;        // its tensors have no data, and its options' pointers are not used but rotary's
  fovea::MultiHeadTensors tensors;  // likewise without data
  fovea::TensorArgument pages[fovea::paged_operand_count];  // those of a schedule
  fovea::TensorArgument alibi_slopes, sinks;                // likewise
  bool turns_by_schedule;                                   // rotary has the positions of its tokens
};

namespace fovea {

[[nodiscard]] Status make_mha_plan(const Context *given, const fovea_mha_weights *weights,
                                   const MultiHeadTensors &tensors, const fovea_mha_options *options,
                                   fovea_mha_plan **plan);

// Of the schedule's present step, if there is one.
size_t mha_workspace_size(const fovea_mha_plan &plan);

[[nodiscard]] Status run_mha_plan(const fovea_mha_plan *plan, const fovea_mha_buffers *buffers, void *workspace,
                                  size_t workspace_size);

}  // namespace fovea
