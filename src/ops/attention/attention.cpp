#include "ops/attention/attention.hpp"

#include <cinttypes>
#include <new>

#include "runtime/workspace.hpp"

namespace fovea {
namespace {

// Stands in for the key tensor of a call whose keys were prepared, so that its checks need no case of their own.
fovea_tensor describe_prepared(const fovea_prepared_keys &keys, int32_t rank) {
  const int64_t shape[] = {keys.batch, keys.kv_heads, keys.length, keys.key_dim};
  if (rank == 3) {
    const int64_t one_head[] = {keys.batch, keys.length, keys.key_dim};
    return fovea_tensor_contiguous(nullptr, FOVEA_F32, 3, one_head);
  }
  return fovea_tensor_contiguous(nullptr, FOVEA_F32, rank, rank == 2 ? shape + 2 : shape);
}

Status read_prepared(const Context &context, const AttentionArguments &arguments, AttentionCall *call) {
  const fovea_prepared_keys &keys = *arguments.prepared;
  if (keys.kernels != context.kernels) {
    return fail(FOVEA_BAD_VALUE, "keys were prepared for %s, expected %s, the context's instruction set",
                keys.kernels->name, context.kernels->name);
  }
  call->prepared = &keys;
  call->score.kind = keys.kind;
  const fovea_tensor *query = arguments.query;
  if (query == nullptr || query->rank < 2 || query->rank > 4) return FOVEA_OK;  // is refused later
  const int32_t rank = query->rank;
  const fovea_tensor key = describe_prepared(keys, rank);
  call->tensor[key_operand] = *TensorArgument(&key);
  if ((rank == 3 && keys.kv_heads != 1) || (rank == 2 && (keys.kv_heads != 1 || keys.batch != 1))) {
    return fail(FOVEA_BAD_RANK,
                "query has rank %d, expected 4: the keys have %" PRId64 " sequences of %" PRId64 " heads", rank,
                keys.batch, keys.kv_heads);
  }
  const int64_t batch = rank == 2 ? 1 : query->shape[0];
  return expect_sizes({{"query", "batch entries", batch, keys.batch, "as the keys were created"}});
}

Status check_prepared(const AttentionCall &call, const AttentionProblem &problem) {
  const int64_t expected = call.prepared->query_dim;
  return expect_sizes({{"query", "features", problem.sizes.head_dim, expected, "as the keys were prepared for"}});
}

// Keys that a plan was made for may have been appended to or truncated since.
Status check_length(const AttentionPlan &plan) {
  const fovea_prepared_keys *keys = plan.score.prepared;
  if (keys == nullptr || keys->length == plan.problem.sizes.key_len) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "keys hold %" PRId64 " positions, expected %" PRId64 " (as when the plan was made)",
              keys->length, plan.problem.sizes.key_len);
}

}  // namespace

Status prepare_attention(const fovea_context *given, const AttentionArguments &arguments, fovea_plan *plan) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  AttentionCall &call = plan->call;
  call = {};
  FOVEA_CHECK(arguments.prepared != nullptr ? read_prepared(*context, arguments, &call)
                                            : read_score(arguments.score, &call));
  FOVEA_CHECK(read_attention_call(arguments, &call));
  AttentionProblem problem;
  FOVEA_CHECK(check_attention_call(call, &problem));
  if (call.prepared != nullptr) {
    FOVEA_CHECK(check_prepared(call, problem));
  }
  return plan_attention(*context, call, problem, &plan->attention);
}

Status attend(const fovea_context *context, const AttentionArguments &arguments) {
  fovea_plan plan;
  FOVEA_CHECK(prepare_attention(context, arguments, &plan));
  const AttentionPlan &attention = plan.attention;
  FOVEA_CHECK(check_attention_data(plan.call, attention.problem));
  FOVEA_CHECK(check_attention_overlaps(plan.call));
  if (attention.tasks == 0) return FOVEA_OK;
  const Workspace workspace(*attention.context, attention.workspace_size);
  if (workspace.data() == nullptr) {
    return fail(FOVEA_OUT_OF_MEMORY, "no memory for a workspace of %zu bytes", attention.workspace_size);
  }
  run_attention(attention, plan.call, workspace.data());
  return FOVEA_OK;
}

Status make_attention_plan(const fovea_context *context, const AttentionArguments &arguments, fovea_plan **plan) {
  if (plan == nullptr) return fail(FOVEA_NULL_POINTER, "plan is NULL, expected where to store the plan");
  fovea_plan made;
  FOVEA_CHECK(prepare_attention(context, arguments, &made));
  auto *created = new (std::nothrow) fovea_plan(made);
  if (created == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a plan");
  *plan = created;
  return FOVEA_OK;
}

Status run_attention_plan(const fovea_plan *plan, const fovea_attention_buffers *buffers, void *workspace,
                          size_t workspace_size) {
  if (plan == nullptr) return fail(FOVEA_NULL_POINTER, "plan is NULL, expected a plan");
  if (buffers == nullptr) return fail(FOVEA_NULL_POINTER, "buffers is NULL, expected the data of the run");
  fovea_attention_buffers given;
  FOVEA_CHECK(read_options("buffers", buffers, &given));
  const AttentionPlan &attention = plan->attention;
  FOVEA_CHECK(check_length(attention));
  AttentionCall call = plan->call;
  FOVEA_CHECK(bind_buffers(given, &call));
  FOVEA_CHECK(check_attention_data(call, attention.problem));
  FOVEA_CHECK(check_attention_overlaps(call));
  if (workspace_size < attention.workspace_size) {
    return fail(FOVEA_WORKSPACE_TOO_SMALL, "workspace_size is %zu, expected at least %zu", workspace_size,
                attention.workspace_size);
  }
  if (workspace == nullptr && attention.workspace_size > 0) {
    return fail(FOVEA_NULL_POINTER, "workspace is NULL, expected %zu bytes", attention.workspace_size);
  }
  run_attention(attention, call, workspace);
  return FOVEA_OK;
}

}  // namespace fovea
