#include "ops/attention/run_check.hpp"

#include <cinttypes>

namespace fovea {
namespace {

// Keys that a plan was made for may have been appended to or truncated since.
Status check_length(const AttentionPlan &plan) {
  const fovea_prepared_keys *keys = plan.score.prepared;
  if (keys == nullptr || keys->length == plan.problem.sizes.key_len) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "keys hold %" PRId64 " positions, expected %" PRId64 " (as when the plan was made)",
              keys->length, plan.problem.sizes.key_len);
}

Status expect_none(const char *name, const void *data) {
  if (data == nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s is %p, expected NULL: the plan was made without it", name, data);
}

}  // namespace

Status bind_buffers(const fovea_attention_buffers *given, AttentionCall *call, GradientCall *gradients) {
  FOVEA_CHECK(expect_given(given, "buffers", "the data of the run"));
  fovea_attention_buffers buffers;
  FOVEA_CHECK(read_options("buffers", given, &buffers));
  call->planned = true;
  for (const OperandRow &row : operand_rows) {
    void *data = data_of(row.buffer, buffers);
    if (!call->present[row.operand]) FOVEA_CHECK(expect_none(row.buffer_name, data));
    if (call->present[row.operand]) call->tensor[row.operand].data = data;
  }
  for (const GradientRow &row : gradient_rows) {
    void *data = data_of(row.buffer, buffers);
    const bool planned = gradients != nullptr && gradients->present[row.operand];
    if (!planned) FOVEA_CHECK(expect_none(row.buffer_name, data));
    if (planned) gradients->tensor[row.operand].data = data;
  }
  return FOVEA_OK;
}

Status check_workspace(size_t needed, const GivenWorkspace &workspace) {
  if (workspace.size < needed) {
    return fail(FOVEA_WORKSPACE_TOO_SMALL, "workspace_size is %zu, expected at least %zu", workspace.size, needed);
  }
  if (workspace.data == nullptr && needed > 0) {
    return fail(FOVEA_NULL_POINTER, "workspace is NULL, expected %zu bytes", needed);
  }
  return FOVEA_OK;
}

Status check_attention_run(const AttentionPlan &plan, const fovea_attention_buffers *buffers,
                           const GivenWorkspace &workspace, AttentionCall *call) {
  FOVEA_CHECK(check_length(plan));
  FOVEA_CHECK(bind_buffers(buffers, call));
  FOVEA_CHECK(check_attention_data(*call, plan.problem));
  FOVEA_CHECK(check_attention_overlaps(*call));
  return check_workspace(plan.workspace_size, workspace);
}

}  // namespace fovea
