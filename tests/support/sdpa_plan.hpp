// A planned sdpa call for the tests: the plan of a problem and the workspace it asks for, in guarded memory.
#pragma once

#include <fovea/fovea.h>

#include <memory>
#include <string>

#include "sdpa_problem.hpp"

namespace testing {

struct DestroyPlan {
  void operator()(fovea_plan *plan) const { fovea_plan_destroy(plan); }
};

class SdpaPlan {
 public:
  SdpaPlan(const fovea_context *context, const SdpaProblem &problem, const SdpaResult &layout) {
    SdpaArguments arguments(problem, layout);
    for (fovea_tensor *tensor :
         {&arguments.query, &arguments.key, &arguments.value, &arguments.out, &arguments.valid_lens, &arguments.mask,
          &arguments.bias, &arguments.alibi_slopes, &arguments.sinks, &arguments.log_sum_exp, &arguments.weights}) {
      tensor->data = nullptr;  // a plan does not look at the data
    }
    fovea_plan *plan = nullptr;
    REQUIRE_OK(fovea_sdpa_plan_create(context, &arguments.query, &arguments.key, &arguments.value, &arguments.out,
                                      &arguments.options, &plan));
    plan_.reset(plan);
    workspace_ = GuardedMemory(fovea_plan_workspace_size(plan));
  }

  fovea_plan *get() const { return plan_.get(); }
  const GuardedMemory &workspace() const { return workspace_; }

  fovea_status run(const fovea_attention_buffers &buffers) const {
    return fovea_attention_run(plan_.get(), &buffers, workspace_.data(), workspace_.size());
  }
  fovea_status run(const SdpaProblem &problem, const SdpaResult &result) const {
    return run(buffers_of(SdpaArguments(problem, result)));
  }

  std::string describe() const {
    std::string text(fovea_plan_describe(plan_.get(), nullptr, 0) + 1, '\0');
    fovea_plan_describe(plan_.get(), text.data(), text.size());
    text.pop_back();
    return text;
  }

 private:
  std::unique_ptr<fovea_plan, DestroyPlan> plan_;
  GuardedMemory workspace_;
};

}  // namespace testing
