// The C functions of scaled dot-product attention and its plans.
#include <new>

#include "guard.hpp"
#include "ops/attention_plan.hpp"
#include "ops/sdpa.hpp"
#include "runtime/workspace.hpp"

namespace {

using namespace fovea;

// check -> plan, for one-shot calls and for plans alike.
Status prepare(const fovea_context *given, const fovea_tensor *query, const fovea_tensor *key,
               const fovea_tensor *value, const fovea_tensor *out, const fovea_attention_options *options,
               fovea_plan *plan) {
  const Context *context = nullptr;
  if (const Status status = resolve_context(given, &context); status != FOVEA_OK) return status;
  if (const Status status = read_sdpa_call(query, key, value, out, options, &plan->call); status != FOVEA_OK) {
    return status;
  }
  AttentionProblem problem;
  if (const Status status = check_sdpa_call(plan->call, &problem); status != FOVEA_OK) return status;
  return plan_attention(*context, problem, &plan->attention);
}

Status run(const fovea_plan &plan, const SdpaCall &call, void *workspace) {
  AttentionProblem problem = plan.attention.problem;
  set_data(call, &problem);
  run_attention(plan.attention, problem, workspace);
  return FOVEA_OK;
}

// The call of a plan with the buffers of one run; a buffer must be there exactly if its tensor was planned.
Status bind(const fovea_plan &plan, const fovea_attention_buffers &buffers, SdpaCall *call) {
  const void *given[operand_count] = {};
  given[query_operand] = buffers.query;
  given[key_operand] = buffers.key;
  given[value_operand] = buffers.value;
  given[valid_lens_operand] = buffers.valid_lens;
  given[mask_operand] = buffers.mask;
  given[bias_operand] = buffers.bias;
  given[alibi_slopes_operand] = buffers.alibi_slopes;
  given[sinks_operand] = buffers.sinks;
  given[out_operand] = buffers.out;
  given[log_sum_exp_operand] = buffers.log_sum_exp;
  given[weights_operand] = buffers.weights;
  *call = plan.call;
  for (int operand = 0; operand < operand_count; ++operand) {
    if (!call->present[operand] && given[operand] != nullptr) {
      return fail(FOVEA_BAD_VALUE, "buffers.%s is %p, expected NULL: the plan was made without it",
                  operand_name(operand), given[operand]);
    }
    if (call->present[operand]) call->tensor[operand].data = const_cast<void *>(given[operand]);
  }
  return FOVEA_OK;
}

}  // namespace

fovea_status fovea_sdpa(const fovea_context *context, const fovea_tensor *query, const fovea_tensor *key,
                        const fovea_tensor *value, const fovea_tensor *out, const fovea_attention_options *options) {
  return guarded([&]() -> Status {
    fovea_plan plan;
    if (const Status status = prepare(context, query, key, value, out, options, &plan); status != FOVEA_OK) {
      return status;
    }
    if (const Status status = check_sdpa_data(plan.call, plan.attention.problem); status != FOVEA_OK) return status;
    const Workspace workspace(*plan.attention.context, plan.attention.workspace_size);
    if (workspace.data() == nullptr) {
      return fail(FOVEA_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", plan.attention.workspace_size);
    }
    return run(plan, plan.call, workspace.data());
  });
}

fovea_status fovea_sdpa_plan_create(const fovea_context *context, const fovea_tensor *query, const fovea_tensor *key,
                                    const fovea_tensor *value, const fovea_tensor *out,
                                    const fovea_attention_options *options, fovea_plan **plan) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return fail(FOVEA_NULL_POINTER, "plan is NULL, expected where to store the plan");
    fovea_plan made;
    if (const Status status = prepare(context, query, key, value, out, options, &made); status != FOVEA_OK) {
      return status;
    }
    auto *created = new (std::nothrow) fovea_plan(made);
    if (created == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a plan");
    *plan = created;
    return FOVEA_OK;
  });
}

fovea_status fovea_attention_run(const fovea_plan *plan, const fovea_attention_buffers *buffers, void *workspace,
                            size_t workspace_size) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return fail(FOVEA_NULL_POINTER, "plan is NULL, expected a plan");
    if (buffers == nullptr) return fail(FOVEA_NULL_POINTER, "buffers is NULL, expected the data of the run");
    fovea_attention_buffers given;
    if (const Status status = read_options("buffers", buffers, &given); status != FOVEA_OK) return status;
    SdpaCall call;
    if (const Status status = bind(*plan, given, &call); status != FOVEA_OK) return status;
    if (const Status status = check_sdpa_data(call, plan->attention.problem); status != FOVEA_OK) return status;
    if (workspace_size < plan->attention.workspace_size) {
      return fail(FOVEA_WORKSPACE_TOO_SMALL, "workspace_size is %zu, expected at least %zu", workspace_size,
                  plan->attention.workspace_size);
    }
    if (workspace == nullptr) {
      return fail(FOVEA_NULL_POINTER, "workspace is NULL, expected %zu bytes", plan->attention.workspace_size);
    }
    return run(*plan, call, workspace);
  });
}

void fovea_plan_destroy(fovea_plan *plan) { delete plan; }

size_t fovea_plan_workspace_size(const fovea_plan *plan) {
  return plan == nullptr ? 0 : plan->attention.workspace_size;
}

size_t fovea_plan_describe(const fovea_plan *plan, char *text, size_t size) {
  return plan == nullptr ? 0 : describe_attention(plan->attention, "sdpa", text, size);
}
