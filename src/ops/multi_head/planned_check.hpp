// The checks of a planned run of multi-head attention.
#pragma once

#include "ops/multi_head/planned.hpp"

namespace fovea {

// Options that plans do not take.
[[nodiscard]] Status check_planned_options(const MultiHeadCall &call);

// Options of a rotation that do not fit the heads are the plan's fault, not its runs'.
[[nodiscard]] Status check_planned_rotary(const MultiHeadCall &call);

// A buffer is there exactly if its tensor was planned; of attention's rows, which are the plan's own, none.
[[nodiscard]] Status check_mha_buffers(const fovea_mha_plan &plan, const fovea_mha_buffers &buffers,
                                       const fovea_attention_buffers &attention);

// Data that must be there, aligned and inside the address space.
[[nodiscard]] Status check_bound_tensors(const MultiHeadTensors &tensors);

// The pages of a schedule that has them.
[[nodiscard]] Status check_bound_pages(const MultiHeadCall &call);

// A step has no more tokens than were planned.
[[nodiscard]] Status check_planned_tokens(const MultiHeadCall &call, int64_t tokens);

[[nodiscard]] Status check_mha_workspace(const MultiHeadCall &call, const void *workspace, size_t size);

}  // namespace fovea
