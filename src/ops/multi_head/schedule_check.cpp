#include "ops/multi_head/schedule_check.hpp"

#include <cinttypes>
#include <cstring>

#include "ops/ragged/check.hpp"

namespace fovea {
namespace {

constexpr const char *as_made = "as the schedule was made";

Status refuse_pages(const fovea_mha_options &options, const char *why) {
  const NamedTensor named[] = {{"key_pages", options.key_pages},
                               {"value_pages", options.value_pages},
                               {"key_scales", options.key_scales},
                               {"value_scales", options.value_scales}};
  for (const NamedTensor &tensor : named) {
    if (tensor.tensor == nullptr) continue;
    return fail(FOVEA_BAD_VALUE, "options.%s is given, expected NULL: %s", tensor.name, why);
  }
  return FOVEA_OK;
}

// Reads attention's options that have data of their own; all else is what the schedule was made with.
Status read_attention(MultiHeadCall *call) {
  FOVEA_CHECK(within("options.attention", read_options("options", call->options.attention, &call->attention)));
  fovea_attention_options rest = call->attention;
  rest.struct_size = 0;
  rest.alibi_slopes = rest.sinks = nullptr;
  const fovea_attention_options none = {};
  if (std::memcmp(&rest, &none, sizeof rest) == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE,
              "options.attention has more than alibi_slopes and sinks, expected the rest in the schedule");
}

Status check_per_head(const fovea_schedule &schedule, int operand, const char *name, const fovea_tensor *tensor) {
  const bool wanted = schedule.made.call.present[operand];
  if (wanted == (tensor != nullptr)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s is %s, expected it %s, as the schedule was made", name, wanted ? "NULL" : "given",
              wanted ? "given" : "NULL");
}

Status check_types(const fovea_schedule &schedule) {
  const AttentionProblem &made = schedule.made.checked;
  const Dtype query = made.query.dtype;
  const bool packed = schedule.made.pages.size == 0;
  if (made.outputs.out_dtype == query && (!packed || (made.key.dtype == query && made.value.dtype == query))) {
    return FOVEA_OK;
  }
  return fail(FOVEA_BAD_DTYPE, "options.schedule was made for queries of %s and other types, expected one type for %s",
              DtypeName(static_cast<int32_t>(query)).text,
              packed ? "queries, keys, values and out" : "queries and out");
}

Status check_sizes(const MultiHeadCall &call) {
  const fovea_mha_weights &w = *call.weights;
  const fovea_schedule &schedule = *call.options.schedule;
  const AttentionSizes &made = schedule.made.checked.sizes;
  const int64_t tokens = call.has_data ? schedule.step().tokens : call.query.length;
  FOVEA_CHECK(expect_sizes({{"query", "batch entries", call.query.batch, 1, "with options.schedule"},
                            {"query", "positions", call.query.length, tokens, "the tokens of options.schedule's step"},
                            {"query_weight", "heads", w.heads, made.heads, as_made},
                            {"key_weight", "heads", w.kv_heads, made.kv_heads, as_made},
                            {"query_weight", "features of a head", w.head_dim, made.head_dim, as_made},
                            {"key_weight", "features of a head", w.key_dim, made.key_dim, as_made},
                            {"value_weight", "features of a head", w.value_dim, made.value_dim, as_made}}));
  if (!call.projects_keys) return FOVEA_OK;
  FOVEA_CHECK(expect_sizes({{"key", "positions", call.key.length, call.query.length, "as query, with a schedule"}}));
  if (schedule.made.pages.size > 0 || !call.has_data) return FOVEA_OK;
  return expect_sizes({{"options.schedule", "packed keys", schedule.step().keys, tokens, "as tokens"}});
}

Status check_pages_of(const MultiHeadCall &call) {
  const fovea_schedule &schedule = *call.options.schedule;
  const fovea_mha_options &options = call.options;
  if (schedule.made.pages.size == 0) {
    return refuse_pages(options, "the schedule was made for packed keys");
  }
  const TensorArgument keys = options.key_pages, values = options.value_pages, key_scales = options.key_scales,
                       value_scales = options.value_scales;
  const PageTensors pages = {keys, values, key_scales, value_scales, call.has_data};
  FOVEA_CHECK(within("options", check_page_memory(schedule, pages)));
  return call.projects_keys && call.has_data ? check_places(schedule.step()) : FOVEA_OK;
}

}  // namespace

Status check_schedule_of(MultiHeadCall *call) {
  const fovea_mha_options &options = call->options;
  if (options.schedule == nullptr) {
    return refuse_pages(options, "there is no options.schedule");
  }
  const fovea_schedule &schedule = *options.schedule;
  if (options.score != nullptr) {
    return fail(FOVEA_BAD_VALUE, "options.score is given, expected NULL with options.schedule");
  }
  if (schedule_phases(schedule) == 0) {
    return fail(FOVEA_BAD_VALUE, "options.schedule has another score function, expected the scaled dot product");
  }
  if (!same_set(*schedule.plan.kernels, *call->context->kernels)) {
    return fail(FOVEA_BAD_VALUE, "options.schedule was made for %s, expected %s, the context's instruction set",
                schedule.plan.kernels->name, call->context->kernels->name);
  }
  FOVEA_CHECK(read_attention(call));
  FOVEA_CHECK(
      check_per_head(schedule, alibi_slopes_operand, "options.attention.alibi_slopes", call->attention.alibi_slopes));
  FOVEA_CHECK(check_per_head(schedule, sinks_operand, "options.attention.sinks", call->attention.sinks));
  FOVEA_CHECK(check_types(schedule));
  FOVEA_CHECK(check_sizes(*call));
  return check_pages_of(*call);
}

Status check_scheduled_data(const MultiHeadCall &call) {
  const int64_t heads = call.weights->heads;
  const auto check = [&](const fovea_tensor *tensor, const char *name) -> Status {
    if (tensor == nullptr) return FOVEA_OK;
    FOVEA_CHECK(check_tensor(tensor, {.name = name, .max_rank = 1, .contiguous_last = false}));
    return check_size(*tensor, name, 0, heads, "the number of query heads");
  };
  FOVEA_CHECK(check(call.attention.alibi_slopes, "options.attention.alibi_slopes"));
  return check(call.attention.sinks, "options.attention.sinks");
}

}  // namespace fovea
