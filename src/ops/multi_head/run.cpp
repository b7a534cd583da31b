// Runs multi-head attention. Heads never move: projections write rows of [heads x dim], which attention reads by
// strides, and attention writes the rows that the output projection reads. Inputs that are the same tensor share one
// product, whose rows hold queries, keys and values side by side.
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

void project(const MultiHeadCall &call, void *memory, const Projection &projection, const void *x, void *out) {
  run_product(*call.context, projection.product,
              {.x = x,
               .copies = call.copies.in(memory),
               .panels = projection.weight->panels,
               .out = out,
               .bias = projection.weight->bias});
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

Status run(MultiHeadCall *call, const MultiHeadTensors &tensors) {
  const Workspace workspace(*call->context, call->layout);
  FOVEA_CHECK(workspace.status());
  void *memory = workspace.data();  // null: nothing to project
  FOVEA_CHECK(check_multi_head_data(tensors, memory, call));
  for (int n = 0; n < call->input_count && memory != nullptr; ++n) {
    const Projection &input = call->input[n];
    project(*call, memory, input, input.x, input.out.in(memory));
  }
  FOVEA_CHECK(place_heads(*call, head_tensors(*call, memory)));
  if (call->options.cache != nullptr) call->options.cache->length = call->key_len;
  if (!call->attends) return FOVEA_OK;
  run_attention(call->plan.attention, call->plan.call, call->attention_memory.in(memory));
  if (call->weights->out.inputs > 0) project(*call, memory, call->last, call->concat_rows.in(memory), call->out.data);
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
