// Attention's backward pass, in one go or planned: check -> plan -> run.
#pragma once

#include "ops/gradients/plan.hpp"

namespace fovea {

[[nodiscard]] Status attend_backward(const fovea_context *context, const AttentionArguments &arguments,
                                     const fovea_attention_gradients *gradients);

[[nodiscard]] Status make_gradient_plan(const fovea_context *context, const AttentionArguments &arguments,
                                        const fovea_attention_gradients *gradients, fovea_plan **plan);

}  // namespace fovea
