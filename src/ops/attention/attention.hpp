// Attention with any score function, in one go or planned: check -> plan -> run.
#pragma once

#include "ops/attention/plan.hpp"

namespace fovea {

// Checks all that needs no data and plans; the tensors' data may be null.
[[nodiscard]] Status prepare_attention(const fovea_context *given, const AttentionArguments &arguments,
                                       fovea_plan *plan);

[[nodiscard]] Status attend(const fovea_context *context, const AttentionArguments &arguments);

[[nodiscard]] Status make_attention_plan(const fovea_context *context, const AttentionArguments &arguments,
                                         fovea_plan **plan);

[[nodiscard]] Status run_attention_plan(const fovea_plan *plan, const fovea_attention_buffers *buffers, void *workspace,
                                        size_t workspace_size);

}  // namespace fovea
