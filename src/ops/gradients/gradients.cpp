#include "ops/gradients/gradients.hpp"

#include <new>

#include "runtime/workspace.hpp"

namespace fovea {
namespace {

// What the C API calls a plan, of a backward pass.
struct BackwardPlan : fovea_plan {
  GradientCall gradient_call = {};
  AttentionProblem checked = {};
  GradientPlan gradients = {};

  [[nodiscard]] Status run(const fovea_attention_buffers *buffers, void *workspace, size_t size) const override;
  size_t workspace_size() const override { return gradients.workspace_size; }
  size_t describe(char *text, size_t size) const override { return describe_gradients(gradients, text, size); }
};

Status BackwardPlan::run(const fovea_attention_buffers *buffers, void *workspace, size_t size) const {
  AttentionCall its = call;
  GradientCall its_gradients = gradient_call;
  FOVEA_CHECK(bind_buffers(buffers, &its, &its_gradients));
  FOVEA_CHECK(check_gradient_data(its, its_gradients, checked));
  FOVEA_CHECK(check_workspace(gradients.workspace_size, {workspace, size}));
  run_gradients(gradients, its, its_gradients, workspace);
  return FOVEA_OK;
}

Status prepare(const fovea_context *given, const AttentionArguments &arguments,
               const fovea_attention_gradients *gradients, BackwardPlan *plan) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(read_gradient_call(arguments, gradients, &plan->call, &plan->gradient_call));
  FOVEA_CHECK(check_attention_call(plan->call, &plan->checked));
  GradientProblem problem;
  FOVEA_CHECK(check_gradient_call(plan->call, plan->gradient_call, plan->checked, &problem));
  return plan_gradients(*context, plan->call, plan->checked, plan->gradient_call, problem, &plan->gradients);
}

}  // namespace

Status attend_backward(const fovea_context *context, const AttentionArguments &arguments,
                       const fovea_attention_gradients *gradients) {
  BackwardPlan plan;
  FOVEA_CHECK(prepare(context, arguments, gradients, &plan));
  FOVEA_CHECK(check_gradient_data(plan.call, plan.gradient_call, plan.checked));
  if (!wants_gradients(plan.gradient_call)) return FOVEA_OK;
  const Workspace workspace(*plan.gradients.scores.context, plan.gradients.workspace_size);
  if (workspace.data() == nullptr) {
    return fail(FOVEA_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", plan.gradients.workspace_size);
  }
  run_gradients(plan.gradients, plan.call, plan.gradient_call, workspace.data());
  return FOVEA_OK;
}

Status make_gradient_plan(const fovea_context *context, const AttentionArguments &arguments,
                          const fovea_attention_gradients *gradients, fovea_plan **plan) {
  FOVEA_CHECK(expect_given(plan, "plan", "where to store the plan"));
  BackwardPlan made;
  FOVEA_CHECK(prepare(context, arguments, gradients, &made));
  auto *created = new (std::nothrow) BackwardPlan(made);
  if (created == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a plan");
  *plan = created;
  return FOVEA_OK;
}

}  // namespace fovea
