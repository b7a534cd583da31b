#include "ops/attention/attention.hpp"

#include <new>

#include "ops/attention/prepared_check.hpp"
#include "ops/attention/run_check.hpp"
#include "runtime/workspace.hpp"

namespace fovea {

Status prepare_attention(const fovea_context *given, const AttentionArguments &arguments, fovea_plan *plan) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  AttentionCall &call = plan->call;
  call = {};
  FOVEA_CHECK(arguments.prepared != nullptr ? read_prepared_keys(*context, arguments, &call)
                                            : read_score(arguments.score, &call));
  FOVEA_CHECK(read_attention_call(arguments, &call));
  AttentionProblem problem;
  FOVEA_CHECK(check_attention_call(call, &problem));
  if (call.prepared != nullptr) FOVEA_CHECK(check_prepared_query(*call.prepared, problem));
  return plan_attention(*context, call, problem, &plan->attention);
}

Status attend(const fovea_context *context, const AttentionArguments &arguments) {
  fovea_plan plan;
  FOVEA_CHECK(prepare_attention(context, arguments, &plan));
  const AttentionPlan &attention = plan.attention;
  FOVEA_CHECK(check_attention_data(plan.call, attention.problem));
  FOVEA_CHECK(check_attention_overlaps(plan.call));
  if (attention.grid.tasks() == 0) return FOVEA_OK;
  const Workspace workspace(*attention.context, attention.workspace_size);
  if (workspace.data() == nullptr) {
    return fail(FOVEA_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", attention.workspace_size);
  }
  run_attention(attention, plan.call, workspace.data());
  return FOVEA_OK;
}

Status make_attention_plan(const fovea_context *context, const AttentionArguments &arguments, fovea_plan **plan) {
  FOVEA_CHECK(expect_given(plan, "plan", "where to store the plan"));
  fovea_plan made;
  FOVEA_CHECK(prepare_attention(context, arguments, &made));
  auto *created = new (std::nothrow) fovea_plan(made);
  if (created == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a plan");
  *plan = created;
  return FOVEA_OK;
}

Status run_attention_plan(const fovea_plan *plan, const fovea_attention_buffers *buffers, void *workspace,
                          size_t workspace_size) {
  FOVEA_CHECK(expect_given(plan, "plan", "a plan"));
  return plan->run(buffers, workspace, workspace_size);
}

}  // namespace fovea

fovea::Status fovea_plan::run(const fovea_attention_buffers *buffers, void *workspace, size_t size) const {
  fovea::AttentionCall its = call;
  FOVEA_CHECK(fovea::check_attention_run(attention, buffers, {workspace, size}, &its));
  fovea::run_attention(attention, its, workspace);
  return FOVEA_OK;
}
