#include "ops/multi_head/planned_check.hpp"

#include <cinttypes>

#include "ops/attention/gradient_operands.hpp"
#include "ops/positions/rotary_check.hpp"
#include "ops/ragged/check.hpp"

namespace fovea {
namespace {

Status check_presence(const char *name, bool planned, const void *data) {
  if (planned || data == nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s is %p, expected NULL: the plan was made without it", name, data);
}

}  // namespace

Status check_planned_options(const MultiHeadCall &call) {
  if (call.kept == nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.kept is given, expected NULL: plans are for inference");
}

Status check_planned_rotary(const MultiHeadCall &call) {
  if (call.options.rotary == nullptr) return FOVEA_OK;
  fovea_rotary_options rotary = call.rotary;
  if (rotary.positions == &call.positions) rotary.positions = nullptr;  // the step's, whose tokens are a run's
  const HeadTensors t = head_tensors(call, nullptr);
  RotaryArguments unused = {};
  FOVEA_CHECK(within("options.rotary", check_rotary_options(&rotary, t.query, &unused)));
  if (!call.needs_keys) return FOVEA_OK;
  return within("options.rotary", check_rotary_options(&rotary, t.key, &unused));
}

Status check_mha_buffers(const fovea_mha_plan &plan, const fovea_mha_buffers &buffers,
                         const fovea_attention_buffers &attention) {
  FOVEA_CHECK(check_presence("buffers.key", plan.tensors.key != nullptr, buffers.key));
  FOVEA_CHECK(check_presence("buffers.value", plan.tensors.value != nullptr, buffers.value));
  FOVEA_CHECK(check_presence("buffers.key_pages", plan.pages[0] != nullptr, buffers.key_pages));
  FOVEA_CHECK(check_presence("buffers.value_pages", plan.pages[1] != nullptr, buffers.value_pages));
  FOVEA_CHECK(check_presence("buffers.key_scales", plan.pages[2] != nullptr, buffers.key_scales));
  FOVEA_CHECK(check_presence("buffers.value_scales", plan.pages[3] != nullptr, buffers.value_scales));
  for (const OperandRow &row : operand_rows) {
    if (row.is_argument()) FOVEA_CHECK(check_presence(row.buffer_name, false, data_of(row.buffer, attention)));
  }
  for (const GradientRow &row : gradient_rows) {
    FOVEA_CHECK(check_presence(row.buffer_name, false, data_of(row.buffer, attention)));
  }
  if (plan.call.options.schedule == nullptr) return FOVEA_OK;
  FOVEA_CHECK(check_presence("buffers.alibi_slopes", plan.alibi_slopes != nullptr, attention.alibi_slopes));
  return check_presence("buffers.sinks", plan.sinks != nullptr, attention.sinks);
}

Status check_bound_tensors(const MultiHeadTensors &tensors) {
  const NamedTensor named[] = {{"buffers.query", tensors.query},
                               {"buffers.key", tensors.key},
                               {"buffers.value", tensors.value},
                               {"buffers.out", tensors.out}};
  for (const NamedTensor &tensor : named) {
    if (tensor.tensor == nullptr) continue;
    FOVEA_CHECK(check_tensor(
        tensor.tensor,
        {.name = tensor.name, .dtype = static_cast<Dtype>(tensor.tensor->dtype), .min_rank = 0, .names_data = true}));
  }
  return FOVEA_OK;
}

Status check_bound_pages(const MultiHeadCall &call) {
  const fovea_mha_options &options = call.options;
  const NamedTensor named[] = {{"buffers.key_pages", options.key_pages},
                               {"buffers.value_pages", options.value_pages},
                               {"buffers.key_scales", options.key_scales},
                               {"buffers.value_scales", options.value_scales}};
  for (const NamedTensor &pages : named) {
    if (pages.tensor == nullptr) continue;
    FOVEA_CHECK(expect_given(pages.tensor->data, pages.name, "memory of the layer's pages"));
  }
  if (options.key_pages == nullptr) return FOVEA_OK;
  return within("buffers", check_page_memory(*options.schedule, {.key = options.key_pages,
                                                                 .value = options.value_pages,
                                                                 .key_scales = options.key_scales,
                                                                 .value_scales = options.value_scales}));
}

Status check_planned_tokens(const MultiHeadCall &call, int64_t tokens) {
  if (tokens > call.query.length) {
    return fail(FOVEA_BAD_SHAPE,
                "plan's schedule has a step of %" PRId64 " tokens, expected at most the %" PRId64 " that were planned",
                tokens, call.query.length);
  }
  const fovea_schedule &schedule = *call.options.schedule;
  if (schedule.made.pages.size > 0) return call.projects_keys ? check_places(schedule.step()) : FOVEA_OK;
  return expect_sizes({{"plan's schedule", "packed keys", schedule.step().keys, tokens, "as tokens"}});
}

Status check_mha_workspace(const MultiHeadCall &call, const void *workspace, size_t size) {
  const size_t needed = call.layout.size() + cache_line;
  if (size < needed) {
    return fail(FOVEA_WORKSPACE_TOO_SMALL, "workspace_size is %zu, expected at least %zu", size, needed);
  }
  return expect_given(workspace, "workspace", "memory for the run");
}

}  // namespace fovea
