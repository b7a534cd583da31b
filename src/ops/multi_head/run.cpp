// No head is ever moved: projections write rows of [heads x dim], which attention reads as [B,H,L,D] by strides, and
// attention writes the rows that the output projection reads. Inputs that are the same tensor share one product, whose
// rows hold queries, keys and values side by side.
//
// The output projection is a pass of its own over attention's rows: taking them block by block out of the nearest cache
// would win next to nothing.
#include "ops/multi_head/check.hpp"
#include "ops/positions/rotary.hpp"
#include "ops/products/product.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

using PackedLinear = fovea_mha_weights::PackedLinear;

struct Destination {
  void *data;
  Dtype dtype;
  int64_t batch_stride, row_stride;
};

void project(const MultiHeadCall &call, const Sequences &x, const PackedLinear &first, int64_t columns,
             const Destination &out) {
  Product product = {.kernels = &product_kernels(*call.weights->kernels, x.dtype, first.dtype),
                     .matrix = {.columns = columns, .depth = first.inputs, .dtype = first.dtype},
                     .types = {.x = x.dtype, .out = out.dtype}};
  set_rows({{x.batch, x.batch_stride, out.batch_stride}, {x.length, x.row_stride, out.row_stride}}, &product);
  run_product(*call.context, product, {.x = x.data, .panels = first.panels, .out = out.data, .bias = first.bias});
}

void project_inputs(const MultiHeadCall &call, void *memory) {
  const fovea_mha_weights &w = *call.weights;
  const auto run = [&](const Sequences &x, const PackedLinear &first, int64_t columns, const ProjectedRows &rows) {
    project(call, x, first, columns, {rows.in(memory), rows.dtype, x.length * rows.row_stride, rows.row_stride});
  };
  if (!call.needs_keys) return run(call.query, w.query, w.query.outputs, call.query_rows);
  // One product for parts that share their input, unless it would spend registers on the padding between them.
  const int64_t lanes = w.kernels->rowwise->lanes;
  const bool one_type = w.key.dtype == w.value.dtype;
  const bool dense = one_type && w.query.padded - w.query.outputs < lanes && w.key.padded - w.key.outputs < lanes;
  if (call.one_input && dense && w.query.dtype == w.key.dtype) {
    return run(call.query, w.query, w.query.padded + w.key.padded + w.value.outputs, call.query_rows);
  }
  run(call.query, w.query, w.query.outputs, call.query_rows);
  if (call.one_memory && dense) return run(call.key, w.key, w.key.padded + w.value.outputs, call.key_rows);
  run(call.key, w.key, w.key.outputs, call.key_rows);
  run(call.value, w.value, w.value.outputs, call.value_rows);
}

// Turns queries and keys, and puts what is new into the cache, past its length and in its type: the only step that can
// still fail is the first.
Status place_heads(const MultiHeadCall &call, const HeadTensors &t) {
  fovea_kv_cache *cache = call.projects_keys ? call.options.cache : nullptr;
  if (call.options.rotary != nullptr) {
    const Status status = rotary(call.context, &t.query, &t.query, &call.rotary);
    FOVEA_CHECK(within("options.rotary", status));
  }
  if (!call.needs_keys) return FOVEA_OK;
  const int64_t count = call.key.length;
  const fovea_tensor to = cache == nullptr ? t.new_key : cached_keys(*cache, cache->length, count);
  const bool narrows = to.dtype != t.new_key.dtype;  // once they are turned
  if (call.options.rotary != nullptr) {
    const Status status = rotary(call.context, &t.new_key, narrows ? &t.new_key : &to, &call.rotary);
    FOVEA_CHECK(within("options.rotary", status));
  }
  if (cache != nullptr && (narrows || call.options.rotary == nullptr)) copy_rows(*call.context, t.new_key, to);
  if (cache != nullptr) copy_rows(*call.context, t.new_value, cached_values(*cache, cache->length, count));
  return FOVEA_OK;
}

void project_out(const MultiHeadCall &call, void *concat) {
  const PackedLinear &out = call.weights->out;
  if (out.inputs == 0) return;
  const int64_t row = call.concat_rows.row_stride;
  const Sequences rows = {concat, call.between, call.query.batch, call.query.length, row, call.query.length * row, row};
  project(call, rows, out, out.outputs, {call.out.data, call.out.dtype, call.out.batch_stride, call.out.row_stride});
}

Status run(MultiHeadCall *call, const MultiHeadTensors &tensors) {
  const Workspace workspace(*call->context, call->layout);
  FOVEA_CHECK(workspace.status());
  void *memory = workspace.data();  // null: nothing to project
  FOVEA_CHECK(check_multi_head_data(tensors, memory, call));
  if (memory != nullptr) project_inputs(*call, memory);
  FOVEA_CHECK(place_heads(*call, head_tensors(*call, memory)));
  FOVEA_CHECK(check_positions_apart(tensors, *call));
  if (call->options.cache != nullptr) call->options.cache->length = call->key_len;
  if (!call->attends) return FOVEA_OK;
  run_attention(call->plan.attention, call->plan.call, call->attention_memory.in(memory));
  project_out(*call, call->concat_rows.in(memory));
  return FOVEA_OK;
}

}  // namespace

Status multi_head_attention(const Context *given, const fovea_mha_weights *weights, const MultiHeadTensors &tensors,
                            const fovea_mha_options *options) {
  MultiHeadCall call = {};
  FOVEA_CHECK(check_multi_head(given, weights, tensors, options, &call));
  FOVEA_CHECK(plan_multi_head(&call));
  return run(&call, tensors);
}

Status multi_head_attention_once(const Context *given, const fovea_mha_parameters *parameters,
                                 const MultiHeadTensors &tensors, const fovea_mha_options *options) {
  fovea_mha_weights weights;
  MultiHeadCall call = {};
  call.parameters = parameters;
  FOVEA_CHECK(plan_mha_weights(given, parameters, &weights));
  FOVEA_CHECK(check_multi_head(given, &weights, tensors, options, &call));
  FOVEA_CHECK(plan_multi_head(&call));
  if (call.layout.size() > 0) {
    FOVEA_CHECK(pack_mha_weights(*call.context, *parameters, &weights));
  }
  return run(&call, tensors);
}

}  // namespace fovea
