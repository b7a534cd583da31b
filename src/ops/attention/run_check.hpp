// The checks of a plan's run.
#pragma once

#include "ops/attention/plan.hpp"

namespace fovea {

struct GivenWorkspace {
  void *data;
  size_t size;
};

// call: the plan's; gets the run's data.
[[nodiscard]] Status check_attention_run(const AttentionPlan &plan, const fovea_attention_buffers *buffers,
                                         const GivenWorkspace &workspace, AttentionCall *call);

}  // namespace fovea
