// The checks of a plan's run.
#pragma once

#include "ops/attention/gradient_operands.hpp"
#include "ops/attention/plan.hpp"

namespace fovea {

struct GivenWorkspace {
  void *data;
  size_t size;
};

// Gives the call of a plan the run's data: a buffer must be there exactly if its tensor was planned. gradients: null
// where none were.
[[nodiscard]] Status bind_buffers(const fovea_attention_buffers *given, AttentionCall *call,
                                  GradientCall *gradients = nullptr);

// needed: bytes.
[[nodiscard]] Status check_workspace(size_t needed, const GivenWorkspace &workspace);

// All of it. call: the plan's; gets the run's data.
[[nodiscard]] Status check_attention_run(const AttentionPlan &plan, const fovea_attention_buffers *buffers,
                                         const GivenWorkspace &workspace, AttentionCall *call);

}  // namespace fovea
