// A planned attention call for the tests: the plan of a problem and the workspace it asks for, in guarded memory.
#pragma once

#include <fovea/fovea.h>

#include <memory>
#include <string>

#include "attention_problem.hpp"

namespace testing {

struct DestroyPlan {
  void operator()(fovea_plan *plan) const { fovea_plan_destroy(plan); }
};

// The buffers of a run over prepared keys, which already hold the key and the score's parameters.
inline fovea_attention_buffers buffers_without_key(const AttentionProblem &problem, const AttentionResult &result) {
  AttentionArguments arguments(problem, result);
  arguments.key.data = nullptr;
  arguments.score.reset();
  return buffers_of(arguments);
}

class AttentionPlan {
 public:
  AttentionPlan(const fovea_context *context, const AttentionProblem &problem, const AttentionResult &layout) {
    AttentionArguments arguments(problem, layout);
    forget_data(arguments);
    fovea_plan *plan = nullptr;
    REQUIRE_OK(arguments.plan(context, &plan));
    keep(plan);
  }

  // Over prepared keys.
  AttentionPlan(const fovea_context *context, const AttentionProblem &problem, const fovea_prepared_keys *keys,
                const AttentionResult &layout) {
    AttentionArguments arguments(problem, layout);
    forget_data(arguments);
    fovea_plan *plan = nullptr;
    REQUIRE_OK(fovea_attention_prepared_plan_create(context, &arguments.query, keys, &arguments.value, &arguments.out,
                                                    &arguments.options, &plan));
    keep(plan);
  }

  // Of a plan that was made before, which is owned from here on.
  explicit AttentionPlan(fovea_plan *plan) { keep(plan); }

  fovea_plan *get() const { return plan_.get(); }
  const GuardedMemory &workspace() const { return workspace_; }

  fovea_status run(const fovea_attention_buffers &buffers) const {
    return fovea_attention_run(plan_.get(), &buffers, workspace_.data(), workspace_.size());
  }
  fovea_status run(const AttentionProblem &problem, const AttentionResult &result) const {
    return run(buffers_of(AttentionArguments(problem, result)));
  }

  std::string describe() const {
    std::string text(fovea_plan_describe(plan_.get(), nullptr, 0) + 1, '\0');
    fovea_plan_describe(plan_.get(), text.data(), text.size());
    text.pop_back();
    return text;
  }

 private:
  // A plan does not look at the data.
  static void forget_data(AttentionArguments &arguments) {
    for (fovea_tensor *tensor :
         {&arguments.query, &arguments.key, &arguments.value, &arguments.out, &arguments.valid_lens,
          &arguments.query_offsets, &arguments.mask, &arguments.bias, &arguments.alibi_slopes, &arguments.sinks,
          &arguments.log_sum_exp, &arguments.weights}) {
      tensor->data = nullptr;
    }
    if (arguments.score) {
      ScoreArguments &score = *arguments.score;
      for (fovea_tensor *tensor :
           {&score.query_weight, &score.key_weight, &score.weight, &score.bias, &score.score_vector, &score.sigmas}) {
        tensor->data = nullptr;
      }
    }
  }

  void keep(fovea_plan *plan) {
    plan_.reset(plan);
    workspace_ = GuardedMemory(fovea_plan_workspace_size(plan));
  }

  std::unique_ptr<fovea_plan, DestroyPlan> plan_;
  GuardedMemory workspace_;
};

}  // namespace testing
