#include "ops/ragged/check.hpp"

#include <cinttypes>

#include "ops/attention/run_check.hpp"
#include "ops/tensors/lift.hpp"

namespace fovea {
namespace {

constexpr int64_t most_sequences = int64_t{1} << 20;
constexpr int64_t largest_page = int64_t{1} << 20;
constexpr int64_t most_workers = 4096;

Status refuse_options(const AttentionCall &call) {
  for (const Operand operand : {valid_lens_operand, query_offsets_operand, mask_operand, bias_operand, weights_operand,
                                scores_operand, projected_query_operand, projected_key_operand}) {
    if (!call.present[operand]) continue;
    return fail(FOVEA_BAD_OPTION, "options.%s is given, expected NULL for a schedule", operand_rows[operand].name);
  }
  if (call.options.dropout == 0.0f) return FOVEA_OK;
  return fail(FOVEA_BAD_OPTION, "options.dropout is %g, expected 0 for a schedule",
              static_cast<double>(call.options.dropout));
}

// Queries, out and packed keys and values: [tokens,H,X] becomes one batch entry.
Status lift_packed(AttentionCall *call, int operand) {
  FOVEA_CHECK(check_tensor(&call->tensor[operand], operand_rule(*call, operand, 3, 3)));
  call->tensor[operand] = lift(call->tensor[operand], {2, 1, 3});
  return FOVEA_OK;
}

Status lift_log_sum_exp(AttentionCall *call) {
  if (!call->present[log_sum_exp_operand]) return FOVEA_OK;
  fovea_tensor &tensor = call->tensor[log_sum_exp_operand];
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(*call, log_sum_exp_operand, 2, 2)));
  tensor = {
      tensor.data, tensor.dtype, 3, {1, tensor.shape[1], tensor.shape[0]}, {0, tensor.strides[1], tensor.strides[0]}};
  return FOVEA_OK;
}

// A page's scales likewise.
Status lift_scales(RaggedCall *made, int operand, HeadStrides *strides) {
  if (!made->call.present[operand]) return FOVEA_OK;
  if (made->pages.size == 0) return lift_packed(&made->call, operand);
  fovea_tensor &tensor = made->call.tensor[operand];
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(made->call, operand, 4, 4)));
  FOVEA_CHECK(
      expect_sizes({{operand_name(made->call, operand), "pages", tensor.shape[0], made->pages.count, "as key"}}));
  *strides = head_strides(tensor);
  tensor.shape[0] = 1;
  tensor.strides[0] = 0;
  return FOVEA_OK;
}

// A page as a batch entry with as many keys.
Status lift_pages(RaggedCall *made, int operand, HeadStrides *strides) {
  fovea_tensor &tensor = made->call.tensor[operand];
  FOVEA_CHECK(check_tensor(&tensor, operand_rule(made->call, operand, 4, 4)));
  const char *name = operand_name(made->call, operand);
  if (operand == key_operand) {
    FOVEA_CHECK(expect_size_in(name, "pages", tensor.shape[0], 1, largest_length));
    FOVEA_CHECK(expect_size_in(name, "positions of a page", tensor.shape[2], 1, largest_page));
    made->pages.count = tensor.shape[0];
    made->pages.size = tensor.shape[2];
  }
  FOVEA_CHECK(expect_sizes({{name, "pages", tensor.shape[0], made->pages.count, "as key"},
                            {name, "positions of a page", tensor.shape[2], made->pages.size, "as key"}}));
  *strides = head_strides(tensor);
  tensor.shape[0] = 1;
  tensor.strides[0] = 0;
  return FOVEA_OK;
}

Status check_limits(const Context &context, const fovea_schedule_limits *given, RaggedCall *made) {
  FOVEA_CHECK(expect_given(given, "limits", "the most that a step may bring"));
  fovea_schedule_limits limits;
  FOVEA_CHECK(read_options("limits", given, &limits));
  FOVEA_CHECK(check_range("limits.", "sequences", limits.sequences, 1, most_sequences));
  FOVEA_CHECK(check_range("limits.", "key_len", limits.key_len, 0, largest_length));
  const bool paged = made->pages.size > 0;
  FOVEA_CHECK(check_range("limits.", "page_ids", limits.page_ids, 0, paged ? largest_length : 0));
  FOVEA_CHECK(check_range("limits.", "workers", limits.workers, 0, most_workers));
  const fovea_tensor &query = made->call.tensor[query_operand];
  const int64_t keys =
      paged ? min_of(made->pages.count * made->pages.size, largest_length) : made->call.tensor[key_operand].shape[2];
  made->limits = {.sequences = limits.sequences,
                  .tokens = query.shape[2],
                  .keys = paged ? 0 : keys,
                  .key_len = limits.key_len == 0 ? keys : limits.key_len,
                  .page_ids = limits.page_ids,
                  .workers = limits.workers == 0 ? worker_limit(context) : limits.workers};
  if (paged && limits.page_ids == 0) {
    const int64_t of_each = ceil_div(made->limits.key_len, made->pages.size);
    made->limits.page_ids = min_of(limits.sequences * of_each, 4 * made->pages.count);
  }
  return FOVEA_OK;
}

Status check_page_score(const AttentionCall &call) {
  if (call.score.kind == FOVEA_SCORE_DOT) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "score.kind is %d, expected FOVEA_SCORE_DOT (%d) for keys in pages", call.score.kind,
              FOVEA_SCORE_DOT);
}

}  // namespace

Status check_schedule(const Context &context, const AttentionArguments &arguments, const fovea_schedule_limits *limits,
                      RaggedCall *made) {
  *made = {};
  AttentionCall &call = made->call;
  FOVEA_CHECK(read_score(arguments.score, &call));
  FOVEA_CHECK(read_attention_call(arguments, &call));
  FOVEA_CHECK(refuse_options(call));
  fovea_tensor pages[paged_operand_count];
  for (int n = 0; n < paged_operand_count; ++n) pages[n] = call.tensor[paged_operands[n]];
  const bool paged = call.tensor[key_operand].rank == 4;
  FOVEA_CHECK(lift_packed(&call, query_operand));
  if (paged) {
    FOVEA_CHECK(lift_pages(made, key_operand, &made->pages.key));
    FOVEA_CHECK(lift_pages(made, value_operand, &made->pages.value));
    FOVEA_CHECK(check_page_score(call));
  } else {
    FOVEA_CHECK(lift_packed(&call, key_operand));
    FOVEA_CHECK(lift_packed(&call, value_operand));
  }
  FOVEA_CHECK(lift_scales(made, key_scales_operand, &made->pages.key_scales));
  FOVEA_CHECK(lift_scales(made, value_scales_operand, &made->pages.value_scales));
  FOVEA_CHECK(lift_packed(&call, out_operand));
  FOVEA_CHECK(lift_log_sum_exp(&call));
  FOVEA_CHECK(check_attention_call(call, &made->checked));
  FOVEA_CHECK(check_limits(context, limits, made));
  for (int n = 0; paged && n < paged_operand_count; ++n) {  // what data will be checked by
    call.tensor[paged_operands[n]] = pages[n];
  }
  return FOVEA_OK;
}

Status check_schedule_run(const fovea_schedule &schedule, const fovea_attention_buffers *buffers, AttentionCall *call) {
  *call = schedule.call;
  FOVEA_CHECK(bind_buffers(buffers, call));
  FOVEA_CHECK(check_attention_data(*call, schedule.plan.problem));
  return check_attention_overlaps(*call);
}

Status check_schedule_workspace(const fovea_schedule &schedule, const void *workspace, size_t size) {
  return check_workspace(schedule.plan.workspace_size, {const_cast<void *>(workspace), size});
}

Status check_share(const fovea_schedule &schedule, const RaggedShare &share) {
  const int64_t phases = schedule_phases(schedule);
  if (phases == 0) {
    return fail(FOVEA_BAD_OPTION,
                "the schedule's score function has work of its own before attention: run it as a whole");
  }
  FOVEA_CHECK(check_range("", "phase", share.phase, 0, phases - 1));
  const int64_t tasks = schedule_tasks(schedule, share.phase);
  FOVEA_CHECK(check_range("", "begin", share.begin, 0, tasks));
  FOVEA_CHECK(check_range("", "end", share.end, share.begin, tasks));
  return check_range("", "worker", share.worker, 0, schedule.made.limits.workers - 1);
}

}  // namespace fovea
