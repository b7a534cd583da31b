// Planned multi-head attention: a call that was checked and planned once, run with other data.
#pragma once

#include "ops/multi_head/call.hpp"

namespace fovea {

constexpr const fovea_tensor *fovea_rotary_options::*rotary_tensors[] = {
    &fovea_rotary_options::positions, &fovea_rotary_options::frequencies, &fovea_rotary_options::sections,
    &fovea_rotary_options::cosines, &fovea_rotary_options::sines};
constexpr int rotary_tensor_count = 5;

}  // namespace fovea

struct fovea_mha_plan {
  fovea::MultiHeadCall call;        // its tensors have no data, and its options' pointers are not used
  fovea::MultiHeadTensors tensors;  // likewise without data
  fovea::TensorArgument pages[fovea::paged_operand_count];  // those of a schedule
  fovea_tensor rotary[fovea::rotary_tensor_count];
  fovea::TensorArgument alibi_slopes, sinks;  // likewise
  bool turns_by_schedule;                     // rotary has the positions of its tokens
};

namespace fovea {

[[nodiscard]] Status make_mha_plan(const Context *given, const fovea_mha_weights *weights,
                                   const MultiHeadTensors &tensors, const fovea_mha_options *options,
                                   fovea_mha_plan **plan);

// Bytes that a run needs; with a schedule, a run of its present step.
size_t mha_workspace_size(const fovea_mha_plan &plan);

[[nodiscard]] Status run_mha_plan(const fovea_mha_plan *plan, const fovea_mha_buffers *buffers, void *workspace,
                                  size_t workspace_size);

}  // namespace fovea
