#include "ops/multi_head/check.hpp"

#include <cinttypes>

#include "ops/multi_head/operands.hpp"
#include "ops/multi_head/schedule_check.hpp"
#include "ops/positions/rotary_check.hpp"
#include "runtime/dispatch.hpp"

namespace fovea {
namespace {

struct InputRule {
  const char *name;
  bool output;
  int rank;  // 0: 2 or 3
  bool has_data;
};

Status read_input(const fovea_tensor *tensor, const InputRule &input, Sequences *sequences) {
  const TensorRule rule = {.name = input.name,
                           .min_rank = input.rank == 0 ? 2 : input.rank,
                           .max_rank = input.rank == 0 ? 3 : input.rank,
                           .output = input.output,
                           .needs_data = input.has_data,
                           .narrow = true};
  FOVEA_CHECK(check_tensor(tensor, rule));
  const int last = tensor->rank - 1;
  const bool batched = tensor->rank == 3;
  *sequences = {.data = tensor->data,
                .dtype = static_cast<Dtype>(tensor->dtype),
                .batch = batched ? tensor->shape[0] : 1,
                .length = tensor->shape[last - 1],
                .features = tensor->shape[last],
                .batch_stride = batched ? tensor->strides[0] : 0,
                .row_stride = tensor->strides[last - 1]};
  return FOVEA_OK;
}

Status read_options(const fovea_mha_options *options, const MultiHeadTensors &tensors, MultiHeadCall *call) {
  FOVEA_CHECK(fovea::read_options("options", options, &call->options));
  const fovea_mha_options &o = call->options;
  if ((o.flags & ~uint32_t{FOVEA_MHA_KEEP_PAGES}) != 0) {
    return fail(FOVEA_BAD_OPTION, "options.flags is 0x%" PRIx32 ", expected FOVEA_MHA_KEEP_PAGES only", o.flags);
  }
  FOVEA_CHECK(check_precision("options", o.precision));
  call->medium =
      o.precision == FOVEA_PRECISION_DEFAULT ? call->weights->medium : narrows_products(*call->context, o.precision);
  call->kept = TensorArgument(o.kept);
  call->projects_keys = (o.flags & FOVEA_MHA_KEEP_PAGES) == 0;
  if (call->projects_keys) return FOVEA_OK;
  if (o.key_pages == nullptr) return fail(FOVEA_NULL_POINTER, "options.key_pages is NULL, expected pages to keep");
  if (tensors.key == nullptr && tensors.value == nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s is set, expected NULL with FOVEA_MHA_KEEP_PAGES",
              tensors.key != nullptr ? "key" : "value");
}

Status read_tensors(const MultiHeadTensors &tensors, MultiHeadCall *call) {
  const fovea_mha_weights &w = *call->weights;
  FOVEA_CHECK(read_input(tensors.query, {"query", false, 0, call->has_data}, &call->query));
  const int rank = tensors.query->rank;
  const Sequences &query = call->query;
  call->attends = query.batch > 0 && query.length > 0 && !call->idle;
  const bool needs_all = call->attends || call->options.key_pages != nullptr || call->backward || call->kept != nullptr;
  call->needs_keys = call->projects_keys && needs_all;
  call->key = query;
  if (tensors.key != nullptr) {
    FOVEA_CHECK(read_input(tensors.key, {"key", false, rank, call->has_data}, &call->key));
  }
  call->value = call->key;
  if (tensors.value != nullptr) {
    FOVEA_CHECK(read_input(tensors.value, {"value", false, rank, call->has_data}, &call->value));
  }
  FOVEA_CHECK(read_input(tensors.out, {"out", true, rank, call->has_data}, &call->out));
  // Without data two tensors are two. What is kept lies as the call was written.
  const bool looks = call->has_data && call->kept == nullptr;
  const auto same = [&](const fovea_tensor *a, const fovea_tensor *b) {
    return a == nullptr || (looks && same_memory(*a, *b));
  };
  const fovea_tensor *key = tensors.key == nullptr ? tensors.query : tensors.key;
  call->one_memory = same(tensors.value, key);
  call->one_input = call->one_memory && same(tensors.key, tensors.query);
  const int64_t outputs = w.out.inputs > 0 ? w.out.outputs : w.heads * w.value_dim;
  FOVEA_CHECK(expect_sizes({{"query", "features", query.features, w.query.inputs, "as query_weight takes"},
                            {"out", "features", call->out.features, outputs, "as the weights give"},
                            {"out", "positions", call->out.length, query.length, "as query"},
                            {"out", "batch entries", call->out.batch, query.batch, "as query"}}));
  FOVEA_CHECK(expect_size_in("query", "positions", query.length, 0, largest_length));
  if (!call->projects_keys) return FOVEA_OK;
  const char *key_name = tensors.key != nullptr ? "key" : "query";
  const char *value_name = tensors.value != nullptr ? "value" : key_name;
  FOVEA_CHECK(expect_sizes({{key_name, "features", call->key.features, w.key.inputs, "as key_weight takes"},
                            {value_name, "features", call->value.features, w.value.inputs, "as value_weight takes"},
                            {"key", "batch entries", call->key.batch, query.batch, "as query"},
                            {"value", "batch entries", call->value.batch, query.batch, "as query"},
                            {"value", "positions", call->value.length, call->key.length, "as key"}}));
  return expect_size_in(key_name, "positions", call->key.length, 0, largest_length);
}

// B Q H (D + Dv + 1) + B K Hkv (Dk + Dv) elements.
Status check_kept(const MultiHeadCall &call) {
  if (call.kept == nullptr) return FOVEA_OK;
  if (call.options.schedule != nullptr) {
    return fail(FOVEA_BAD_VALUE,
                "options.kept is given, expected NULL with options.schedule: schedules are for inference");
  }
  FOVEA_CHECK(check_tensor(call.kept, {.name = "options.kept",
                                       .min_rank = 1,
                                       .max_rank = 1,
                                       .output = true,
                                       .contiguous_last = true,
                                       .needs_data = call.has_data}));
  const fovea_mha_weights &w = *call.weights;
  const auto numbers = [](const Sequences &rows, int64_t columns, int64_t *count) {
    return checked_multiply(rows.batch, rows.length, count) && checked_multiply(*count, columns, count);
  };
  int64_t of_queries = 0, of_keys = 0, all = 0;
  if (!numbers(call.query, w.query.outputs + w.heads * w.value_dim + w.heads, &of_queries) ||
      !numbers(call.key, w.key.outputs + w.value.outputs, &of_keys) || !checked_add(of_queries, of_keys, &all)) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "query and key are too long: what options.kept holds would exceed the address space");
  }
  return check_size(*call.kept, "options.kept", 0, all, "B Q H (D + Dv + 1) + B K Hkv (Dk + Dv)");
}

// The score function with its data, and whether it takes the heads of these weights. Attention's own checks would look
// for it in options.attention, and blame a key.
Status check_mha_score(const MultiHeadCall &call) {
  const fovea_mha_weights &w = *call.weights;
  const AttentionSizes sizes = {.heads = w.heads, .head_dim = w.head_dim, .key_dim = w.key_dim};
  AttentionCall attention = {};
  Status status = read_score(call.options.score, &attention);
  if (status == FOVEA_OK) status = check_score(attention, sizes);
  if (status == FOVEA_OK && call.has_data) {
    status = check_operand_data(attention, first_score_operand, last_score_operand);
  }
  if (status == FOVEA_OK && call.has_data && call.attends) status = check_score_data(attention);
  FOVEA_CHECK(within("options", status));
  const int32_t kind = attention.score.kind;
  if (w.key_dim == w.head_dim || (kind != FOVEA_SCORE_DOT && kind != FOVEA_SCORE_GAUSSIAN)) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE,
              "key_weight gives heads of %" PRId64 ", expected %" PRId64 " as query's with this score function",
              w.key_dim, w.head_dim);
}

Status read_rotary(MultiHeadCall *call) {
  if (call->options.rotary == nullptr) return FOVEA_OK;
  const fovea_mha_weights &w = *call->weights;
  FOVEA_CHECK(fovea::read_options("options.rotary", call->options.rotary, &call->rotary));
  call->rotary.struct_size = sizeof call->rotary;
  if (call->projects_keys && w.key_dim != w.head_dim) {
    return fail(FOVEA_BAD_SHAPE,
                "key_weight gives heads of %" PRId64 ", expected %" PRId64 " as query's with options.rotary", w.key_dim,
                w.head_dim);
  }
  // What belongs to rows, not to positions, serves queries and keys alike.
  const bool turns_rows = call->rotary.cosines != nullptr && call->rotary.cosines->rank == 3;
  if (call->rotary.positions != nullptr || turns_rows) {
    if (!call->projects_keys) return FOVEA_OK;
    return expect_sizes(
        {{"key", "positions", call->key.length, call->query.length,
          turns_rows ? "as query, with options.rotary.cosines of rank 3" : "as query, with options.rotary.positions"}});
  }
  if (call->options.schedule == nullptr) return FOVEA_OK;
  if (call->rotary.offset != 0) {
    return fail(FOVEA_BAD_VALUE, "options.rotary.offset is %" PRId64 ", expected 0 with options.schedule",
                call->rotary.offset);
  }
  call->positions = schedule_positions(*call->options.schedule);
  call->rotary.positions = &call->positions;
  return FOVEA_OK;
}

Status check_heads_data(void *memory, MultiHeadCall *call) {
  if (call->options.schedule != nullptr) return check_scheduled_data(*call);
  const HeadTensors t = head_tensors(*call, memory);
  AttentionCall &attention = call->plan.call;
  attention.tensor[query_operand].data = t.query.data;
  attention.tensor[key_operand].data = t.key.data;
  attention.tensor[value_operand].data = t.value.data;
  attention.tensor[out_operand].data = t.out.data;
  // Without queries the keys that would have been projected have no data.
  return within("options.attention", call->attends
                                         ? check_attention_data(attention, call->plan.attention.problem)
                                         : check_operand_data(attention, valid_lens_operand, operand_count - 1));
}

// What will be turned, before anything is computed.
Status check_heads_rotary(void *memory, const MultiHeadCall &call) {
  if (call.options.rotary == nullptr) return FOVEA_OK;
  const HeadTensors t = head_tensors(call, memory);
  const char *const name = call.planned ? "plan's options.rotary" : "options.rotary";
  RotaryArguments unused = {};
  FOVEA_CHECK(within(name, check_rotary(&call.rotary, &t.query, &t.query, &unused)));
  return call.needs_keys ? within(name, check_rotary(&call.rotary, &t.key, &t.key, &unused)) : FOVEA_OK;
}

// What is kept over anything else: steps would find parts of it, and give them names of their own.
Status check_kept_overlaps(const MultiHeadTensors &tensors, const MultiHeadCall &call) {
  if (call.kept == nullptr) return FOVEA_OK;
  if (call.options.rotary != nullptr) {
    RotaryArguments unused = {};
    FOVEA_CHECK(
        within("options.rotary", check_rotary_options(&call.rotary, head_tensors(call, nullptr).query, &unused)));
  }
  return check_multi_head_overlaps(tensors, call);
}

}  // namespace

Status check_multi_head(const Context *given, const fovea_mha_weights *weights, const MultiHeadTensors &tensors,
                        const fovea_mha_options *options, MultiHeadCall *call) {
  FOVEA_CHECK(resolve_context(given, &call->context));
  FOVEA_CHECK(expect_given(weights, "weights", "weights"));
  if (!same_set(*weights->kernels, *call->context->kernels)) {
    return fail(FOVEA_BAD_VALUE, "weights were packed for %s, expected %s, the context's instruction set",
                weights->kernels->name, call->context->kernels->name);
  }
  call->weights = weights;
  FOVEA_CHECK(read_options(options, tensors, call));
  FOVEA_CHECK(read_tensors(tensors, call));
  FOVEA_CHECK(check_kept(*call));
  FOVEA_CHECK(check_schedule_of(call));
  FOVEA_CHECK(check_mha_score(*call));
  return read_rotary(call);
}

Status check_multi_head_data(const MultiHeadTensors &tensors, void *memory, MultiHeadCall *call) {
  FOVEA_CHECK(check_heads_data(memory, call));
  FOVEA_CHECK(check_kept_overlaps(tensors, *call));
  FOVEA_CHECK(check_heads_rotary(memory, *call));
  return check_multi_head_overlaps(tensors, *call);
}

}  // namespace fovea
