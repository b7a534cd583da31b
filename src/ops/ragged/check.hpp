// The checks of schedules: what they are made for, the steps they are set for, and what is appended.
#pragma once

#include "ops/ragged/schedule.hpp"

namespace fovea {

// Reads and checks all that a schedule is made for.
[[nodiscard]] Status check_schedule(const Context &context, const AttentionArguments &arguments,
                                    const fovea_schedule_limits *limits, RaggedCall *made);

// Reads a step into *next, which has room for the most there may be.
[[nodiscard]] Status read_step(fovea_schedule *schedule, const fovea_step *given, RaggedStep *next);

// The tensors of a run, with their data.
[[nodiscard]] Status check_schedule_run(const fovea_schedule &schedule, const fovea_attention_buffers *buffers,
                                        AttentionCall *call);

// That a workspace which is given is large enough.
[[nodiscard]] Status check_schedule_workspace(const fovea_schedule &schedule, const void *workspace, size_t size);

[[nodiscard]] Status check_share(const fovea_schedule &schedule, const RaggedShare &share);

// Each sequence has a place for its tokens, which no other one writes into.
[[nodiscard]] Status check_places(const RaggedStep &step);

// Pages are those that the schedule was made with, in any memory.
struct PageTensors {
  const fovea_tensor *key, *value, *key_scales, *value_scales;
  bool have_data = true;
  bool keys_alone = false;  // values are parts of them
};
[[nodiscard]] Status check_page_memory(const fovea_schedule &schedule, const PageTensors &pages);

[[nodiscard]] Status check_appended(const fovea_schedule &schedule, const AppendedTensors &tensors);

// That no offset is added to where tokens stand, and that nothing is written over what keys have been turned by. For
// options that have been checked.
[[nodiscard]] Status check_turning(const AppendedTensors &tensors, const fovea_rotary_options &rotary);

}  // namespace fovea
