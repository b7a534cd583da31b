// A call to attention's backward pass, and its checks.
#pragma once

#include "kernels/attention/gradient_problem.hpp"
#include "ops/attention/plan.hpp"
#include "ops/attention/run_check.hpp"

namespace fovea {

// Copies descriptors; fails where the forward call's own would, and on what a backward pass needs beside it. Returned
// weights and scores are left out of `call`.
[[nodiscard]] Status read_gradient_call(const AttentionArguments &arguments, const fovea_attention_gradients *given,
                                        AttentionCall *call, GradientCall *gradients);

// Every check that needs no data. `scores` is what the forward call's checks made; on success the problem is complete
// but for its pointers.
[[nodiscard]] Status check_gradient_call(const AttentionCall &call, const GradientCall &gradients,
                                         const AttentionProblem &scores, GradientProblem *problem);

// Whether there is an element to write: else no value is looked at, and no memory is needed.
[[nodiscard]] bool wants_gradients(const GradientCall &gradients);

// Every check that needs the data, overlaps among them.
[[nodiscard]] Status check_gradient_data(const AttentionCall &call, const GradientCall &gradients,
                                         const AttentionProblem &scores);

}  // namespace fovea
