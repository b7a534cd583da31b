// No head is ever moved: projections write rows of [heads x dim], which attention reads as [B,H,L,D] by strides, and
// attention writes the rows that the output projection reads. Inputs that are the same tensor share one product, whose
// rows hold queries, keys and values side by side.
//
// The output projection is a pass of its own over attention's rows: taking them block by block out of the nearest cache
// would win next to nothing.
#include "ops/multi_head/multi_head.hpp"

#include <algorithm>
#include <cinttypes>

#include "ops/attention/attention.hpp"
#include "ops/cache/kv_cache.hpp"
#include "ops/positions/rotary.hpp"
#include "ops/products/product.hpp"
#include "ops/tensors/check.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

using PackedLinear = fovea_mha_weights::PackedLinear;

// An input or output, [B,L,E].
struct Sequences {
  float *data;
  int64_t batch, length, features;
  int64_t batch_stride, row_stride;
};

// Projected rows in the workspace, or some columns of them.
struct Rows {
  MemoryPart<float> part;
  int64_t column, row_stride;

  float *in(void *memory) const { return memory == nullptr ? nullptr : part.in(memory) + column; }
};

struct Call {
  const Context *context;
  const fovea_mha_weights *weights;
  const fovea_mha_parameters *parameters;  // of weights that are used once; else null
  fovea_mha_options options;
  fovea_rotary_options rotary;
  Sequences query, key, value, out;
  bool one_input;      // of all three projections
  bool one_memory;     // of keys and values
  bool attends;        // there are queries
  bool projects_keys;  // else the cache has them
  bool needs_keys;     // of this call: to attend to, or for the cache
  int64_t key_len;     // with the cache's
  MemoryLayout layout;
  Rows query_rows, key_rows, value_rows, concat_rows;
  MemoryPart<char> attention_memory;
  fovea_plan plan;
};

Status read_input(const fovea_tensor *tensor, const char *name, bool output, int rank, Sequences *sequences) {
  const TensorRule rule = {
      .name = name, .min_rank = rank == 0 ? 2 : rank, .max_rank = rank == 0 ? 3 : rank, .output = output};
  FOVEA_CHECK(check_tensor(tensor, rule));
  const int last = tensor->rank - 1;
  const bool batched = tensor->rank == 3;
  *sequences = {
      static_cast<float *>(tensor->data), batched ? tensor->shape[0] : 1, tensor->shape[last - 1], tensor->shape[last],
      batched ? tensor->strides[0] : 0,   tensor->strides[last - 1]};
  return FOVEA_OK;
}

Status read_options(const fovea_mha_options *options, const MultiHeadTensors &tensors, Call *call) {
  FOVEA_CHECK(fovea::read_options("options", options, &call->options));
  const fovea_mha_options &o = call->options;
  if ((o.flags & ~uint32_t{FOVEA_MHA_KEEP_CACHE}) != 0) {
    return fail(FOVEA_BAD_OPTION, "options.flags is 0x%" PRIx32 ", expected FOVEA_MHA_KEEP_CACHE only", o.flags);
  }
  if (o.reserved != 0) return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", o.reserved);
  if (o.cache != nullptr) {
    FOVEA_CHECK(within("options", check_kv_cache(o.cache)));
  }
  call->projects_keys = (o.flags & FOVEA_MHA_KEEP_CACHE) == 0;
  if (call->projects_keys) return FOVEA_OK;
  if (o.cache == nullptr) return fail(FOVEA_NULL_POINTER, "options.cache is NULL, expected a cache to keep");
  if (tensors.key == nullptr && tensors.value == nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s is set, expected NULL with FOVEA_MHA_KEEP_CACHE",
              tensors.key != nullptr ? "key" : "value");
}

Status read_tensors(const MultiHeadTensors &tensors, Call *call) {
  const fovea_mha_weights &w = *call->weights;
  FOVEA_CHECK(read_input(tensors.query, "query", false, 0, &call->query));
  const int rank = tensors.query->rank;
  const Sequences &query = call->query;
  call->attends = query.batch > 0 && query.length > 0;
  call->needs_keys = call->projects_keys && (call->attends || call->options.cache != nullptr);
  call->key = query;
  if (tensors.key != nullptr) {
    FOVEA_CHECK(read_input(tensors.key, "key", false, rank, &call->key));
  }
  call->value = call->key;
  if (tensors.value != nullptr) {
    FOVEA_CHECK(read_input(tensors.value, "value", false, rank, &call->value));
  }
  FOVEA_CHECK(read_input(tensors.out, "out", true, rank, &call->out));
  const auto same = [](const fovea_tensor *a, const fovea_tensor *b) { return a == nullptr || same_memory(*a, *b); };
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

Status check_cache(Call *call) {
  call->key_len = call->projects_keys ? call->key.length : 0;
  const fovea_kv_cache *cache = call->options.cache;
  if (cache == nullptr) return FOVEA_OK;
  const fovea_mha_weights &w = *call->weights;
  constexpr const char *name = "options.cache";
  FOVEA_CHECK(expect_sizes({{name, "sequences", cache->batch, call->query.batch, "query's batch entries"},
                            {name, "heads", cache->kv_heads, w.kv_heads, "key/value heads of the weights"},
                            {name, "features in a key", cache->head_dim, w.key_dim, "as the weights give"},
                            {name, "features in a value", cache->value_dim, w.value_dim, "as the weights give"}}));
  if (call->projects_keys) {
    FOVEA_CHECK(within(name, check_room(*cache, call->key.length)));
  }
  call->key_len += cache->length;
  return FOVEA_OK;
}

// The score function with its data, and whether it takes the heads of these weights. Attention's own checks would look
// for it in options.attention, and blame a key.
Status check_mha_score(const Call &call) {
  const fovea_mha_weights &w = *call.weights;
  const AttentionSizes sizes = {.heads = w.heads, .head_dim = w.head_dim, .key_dim = w.key_dim};
  AttentionCall attention = {};
  Status status = read_score(call.options.score, &attention);
  if (status == FOVEA_OK) status = check_score(attention, sizes);
  if (status == FOVEA_OK) status = check_operand_data(attention, first_score_operand, last_score_operand);
  if (status == FOVEA_OK && call.attends) status = check_score_data(attention);
  FOVEA_CHECK(within("options", status));
  const int32_t kind = attention.score.kind;
  if (w.key_dim == w.head_dim || (kind != FOVEA_SCORE_DOT && kind != FOVEA_SCORE_GAUSSIAN)) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE,
              "key_weight gives heads of %" PRId64 ", expected %" PRId64 " as query's with this score function",
              w.key_dim, w.head_dim);
}

// The workspace's rows: side by side where one product writes them.
Status lay_out(Call *call) {
  const fovea_mha_weights &w = *call->weights;
  const int64_t query_len = call->query.length;
  const int64_t key_len = call->needs_keys ? call->key.length : 0;
  const auto take = [&](int64_t batch, int64_t length, int64_t row) {
    return Rows{call->layout.add<float>({batch, length, row}), 0, row};
  };
  const auto beside = [](const Rows &rows, int64_t columns) {
    return Rows{rows.part, rows.column + columns, rows.row_stride};
  };
  if (call->one_input && call->projects_keys) {
    call->query_rows = take(call->query.batch, query_len, w.query.padded + w.key.padded + w.value.padded);
    call->key_rows = beside(call->query_rows, w.query.padded);
    call->value_rows = beside(call->key_rows, w.key.padded);
  } else {
    call->query_rows = take(call->query.batch, query_len, w.query.padded);
    call->key_rows = take(call->key.batch, key_len, call->one_memory ? w.key.padded + w.value.padded : w.key.padded);
    call->value_rows =
        call->one_memory ? beside(call->key_rows, w.key.padded) : take(call->key.batch, key_len, w.value.padded);
  }
  call->concat_rows = take(call->query.batch, w.out.inputs > 0 ? query_len : 0, w.heads * w.value_dim);
  if (call->layout.fits()) return FOVEA_OK;
  return fail(FOVEA_SIZE_OVERFLOW, "the projections of this call would exceed the address space");
}

// Rows seen as [B,H,L,D].
fovea_tensor heads_of(float *data, const Sequences &like, int64_t row_stride, int64_t heads, int64_t dim) {
  return {data, FOVEA_F32, 4, {like.batch, heads, like.length, dim}, {like.length * row_stride, dim, row_stride, 1}};
}

struct HeadTensors {
  fovea_tensor query, key, value, out;
  fovea_tensor new_key, new_value;  // of this call, in the workspace
};

// memory null: while planning.
HeadTensors head_tensors(const Call &call, void *memory) {
  const fovea_mha_weights &w = *call.weights;
  HeadTensors t = {};
  t.query = heads_of(call.query_rows.in(memory), call.query, call.query_rows.row_stride, w.heads, w.head_dim);
  t.new_key = t.key = heads_of(call.key_rows.in(memory), call.key, call.key_rows.row_stride, w.kv_heads, w.key_dim);
  t.new_value = t.value =
      heads_of(call.value_rows.in(memory), call.value, call.value_rows.row_stride, w.kv_heads, w.value_dim);
  t.out = heads_of(call.concat_rows.in(memory), call.query, call.concat_rows.row_stride, w.heads, w.value_dim);
  if (w.out.inputs == 0) {
    t.out.data = call.out.data;
    t.out.strides[0] = call.out.batch_stride;
    t.out.strides[2] = call.out.row_stride;
  }
  if (call.options.cache != nullptr) {
    t.key = cached_keys(*call.options.cache, 0, call.key_len);
    t.value = cached_values(*call.options.cache, 0, call.key_len);
  }
  return t;
}

// Everything else about attention itself, and its part of the workspace.
Status plan_heads(Call *call) {
  const HeadTensors t = head_tensors(*call, nullptr);
  const Status status = prepare_attention(
      call->context, {call->options.score, &t.query, &t.key, nullptr, &t.value, &t.out, call->options.attention},
      &call->plan);
  FOVEA_CHECK(within("options.attention", status));
  call->attention_memory = call->layout.add<char>(static_cast<int64_t>(call->plan.attention.workspace_size));
  if (call->layout.fits()) return FOVEA_OK;
  return fail(FOVEA_SIZE_OVERFLOW, "the workspace of this call would exceed the address space");
}

Status check_heads_data(Call *call, void *memory) {
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

struct Outputs {
  NamedTensor out, log_sum_exp, weights;
};

Outputs outputs_of(const MultiHeadTensors &tensors, const Call &call) {
  const AttentionCall &attention = call.plan.call;
  const auto named = [&](int operand) -> NamedTensor {
    return {operand_name(attention, operand), attention.present[operand] ? &attention.tensor[operand] : nullptr};
  };
  return {{"out", tensors.out}, named(log_sum_exp_operand), named(weights_operand)};
}

// Of what the caller gave: the rows of attention are the workspace's.
Status check_tensors_apart(const MultiHeadTensors &tensors, const Call &call) {
  const struct {
    int operand;
    const fovea_tensor *tensor;
  } given[] = {{query_operand, tensors.query},
               {key_operand, tensors.key},
               {value_operand, tensors.value},
               {out_operand, tensors.out}};
  AttentionCall attention = call.plan.call;
  for (const auto &[operand, tensor] : given) {
    attention.present[operand] = tensor != nullptr;
    if (tensor != nullptr) attention.tensor[operand] = *tensor;
  }
  FOVEA_CHECK(check_attention_overlaps(attention));
  if (call.parameters == nullptr) return FOVEA_OK;
  const Outputs outputs = outputs_of(tensors, call);
  return check_mha_weights_overlaps(*call.parameters, {outputs.out, outputs.log_sum_exp, outputs.weights});
}

// After rotary has checked them as a tensor.
Status check_positions_apart(const MultiHeadTensors &tensors, const Call &call) {
  const TensorArgument positions(call.options.rotary == nullptr ? nullptr : call.rotary.positions);
  const Outputs outputs = outputs_of(tensors, call);
  return check_overlaps({outputs.out, outputs.log_sum_exp, outputs.weights}, {{"options.rotary.positions", positions}});
}

Status read_rotary(Call *call) {
  if (call->options.rotary == nullptr) return FOVEA_OK;
  const fovea_mha_weights &w = *call->weights;
  FOVEA_CHECK(fovea::read_options("options.rotary", call->options.rotary, &call->rotary));
  call->rotary.struct_size = sizeof call->rotary;
  if (call->projects_keys && w.key_dim != w.head_dim) {
    return fail(FOVEA_BAD_SHAPE,
                "key_weight gives heads of %" PRId64 ", expected %" PRId64 " as query's with options.rotary", w.key_dim,
                w.head_dim);
  }
  if (call->rotary.positions != nullptr) {
    if (!call->projects_keys) return FOVEA_OK;
    return expect_sizes(
        {{"key", "positions", call->key.length, call->query.length, "as query, with options.rotary.positions"}});
  }
  if (call->options.cache == nullptr) return FOVEA_OK;
  int64_t offset = 0;
  if (!checked_add(call->rotary.offset, call->options.cache->length, &offset)) {
    return fail(FOVEA_BAD_VALUE, "options.rotary.offset is %" PRId64 ", expected 0 to 2^30", call->rotary.offset);
  }
  call->rotary.offset = offset;
  return FOVEA_OK;
}

struct Destination {
  float *data;
  int64_t batch_stride, row_stride;
};

void project(const Call &call, const Sequences &x, const PackedLinear &first, int64_t columns, const Destination &out) {
  Product product = {.kernels = call.context->kernels->matmul, .matrix = {.columns = columns, .depth = first.inputs}};
  set_rows({{x.batch, x.batch_stride, out.batch_stride}, {x.length, x.row_stride, out.row_stride}}, &product);
  run_product(*call.context, product, {.x = x.data, .panels = first.panels, .out = out.data, .bias = first.bias});
}

void project_inputs(const Call &call, void *memory) {
  const fovea_mha_weights &w = *call.weights;
  const auto run = [&](const Sequences &x, const PackedLinear &first, int64_t columns, const Rows &rows) {
    project(call, x, first, columns, {rows.in(memory), x.length * rows.row_stride, rows.row_stride});
  };
  if (!call.needs_keys) return run(call.query, w.query, w.query.outputs, call.query_rows);
  // One product for parts that share their input, unless it would spend registers on the padding between them.
  const int64_t lanes = w.kernels->rowwise->lanes;
  const bool dense = w.query.padded - w.query.outputs < lanes && w.key.padded - w.key.outputs < lanes;
  if (call.one_input && dense) {
    return run(call.query, w.query, w.query.padded + w.key.padded + w.value.outputs, call.query_rows);
  }
  run(call.query, w.query, w.query.outputs, call.query_rows);
  if (call.one_memory && dense) return run(call.key, w.key, w.key.padded + w.value.outputs, call.key_rows);
  run(call.key, w.key, w.key.outputs, call.key_rows);
  run(call.value, w.value, w.value.outputs, call.value_rows);
}

// Turns queries and keys, and puts what is new into the cache, past its length: the only step that can still fail is
// the first.
Status place_heads(const Call &call, const HeadTensors &t) {
  fovea_kv_cache *cache = call.projects_keys ? call.options.cache : nullptr;
  if (call.options.rotary != nullptr) {
    const Status status = rotary(call.context, &t.query, &t.query, &call.rotary);
    FOVEA_CHECK(within("options.rotary", status));
  }
  if (!call.needs_keys) return FOVEA_OK;
  const int64_t count = call.key.length;
  const fovea_tensor to = cache == nullptr ? t.new_key : cached_keys(*cache, cache->length, count);
  if (call.options.rotary != nullptr) {
    const Status status = rotary(call.context, &t.new_key, &to, &call.rotary);
    FOVEA_CHECK(within("options.rotary", status));
  } else if (cache != nullptr) {
    copy_rows(*call.context, t.new_key, to);
  }
  if (cache != nullptr) copy_rows(*call.context, t.new_value, cached_values(*cache, cache->length, count));
  return FOVEA_OK;
}

void project_out(const Call &call, float *concat) {
  const PackedLinear &out = call.weights->out;
  if (out.inputs == 0) return;
  const int64_t row = call.concat_rows.row_stride;
  const Sequences rows = {concat, call.query.batch, call.query.length, row, call.query.length * row, row};
  project(call, rows, out, out.outputs, {call.out.data, call.out.batch_stride, call.out.row_stride});
}

Status run(Call *call, const MultiHeadTensors &tensors) {
  const Workspace workspace(*call->context, call->layout);
  FOVEA_CHECK(workspace.status());
  void *memory = workspace.data();  // null: nothing to project
  FOVEA_CHECK(check_heads_data(call, memory));
  FOVEA_CHECK(check_tensors_apart(tensors, *call));
  if (memory != nullptr) project_inputs(*call, memory);
  FOVEA_CHECK(place_heads(*call, head_tensors(*call, memory)));
  FOVEA_CHECK(check_positions_apart(tensors, *call));
  if (call->options.cache != nullptr) call->options.cache->length = call->key_len;
  if (!call->attends) return FOVEA_OK;
  run_attention(call->plan.attention, call->plan.call, call->attention_memory.in(memory));
  project_out(*call, call->concat_rows.in(memory));
  return FOVEA_OK;
}

// Checks and plans all that needs no data of queries, keys and values; of the weights only the sizes.
Status prepare(const Context *given, const fovea_mha_weights *weights, const MultiHeadTensors &tensors,
               const fovea_mha_options *options, Call *call) {
  FOVEA_CHECK(resolve_context(given, &call->context));
  if (weights == nullptr) return fail(FOVEA_NULL_POINTER, "weights is NULL, expected weights");
  if (weights->kernels != call->context->kernels) {
    return fail(FOVEA_BAD_VALUE, "weights were packed for %s, expected %s, the context's instruction set",
                weights->kernels->name, call->context->kernels->name);
  }
  call->weights = weights;
  FOVEA_CHECK(read_options(options, tensors, call));
  FOVEA_CHECK(read_tensors(tensors, call));
  FOVEA_CHECK(check_cache(call));
  FOVEA_CHECK(check_mha_score(*call));
  FOVEA_CHECK(read_rotary(call));
  FOVEA_CHECK(lay_out(call));
  return plan_heads(call);
}

}  // namespace

Status multi_head_attention(const Context *given, const fovea_mha_weights *weights, const MultiHeadTensors &tensors,
                            const fovea_mha_options *options) {
  Call call = {};
  FOVEA_CHECK(prepare(given, weights, tensors, options, &call));
  return run(&call, tensors);
}

Status multi_head_attention_once(const Context *given, const fovea_mha_parameters *parameters,
                                 const MultiHeadTensors &tensors, const fovea_mha_options *options) {
  fovea_mha_weights weights;
  Call call = {};
  call.parameters = parameters;
  FOVEA_CHECK(plan_mha_weights(given, parameters, &weights));
  FOVEA_CHECK(prepare(given, &weights, tensors, options, &call));
  if (call.layout.size() > 0) {
    FOVEA_CHECK(pack_mha_weights(*call.context, *parameters, &weights));
  }
  return run(&call, tensors);
}

}  // namespace fovea
