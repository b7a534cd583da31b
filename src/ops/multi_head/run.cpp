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
#include "ops/tensors/lift.hpp"
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

// [1,H,L,D] as [L,H,D].
fovea_tensor as_tokens(const fovea_tensor &heads) {
  return {heads.data,
          heads.dtype,
          3,
          {heads.shape[2], heads.shape[1], heads.shape[3]},
          {heads.strides[2], heads.strides[1], heads.strides[3]}};
}

// Turns queries and keys, and puts what is new into pages: the only step that can still fail is the first.
Status place_heads(const MultiHeadCall &call, const HeadTensors &t, void *memory) {
  const auto turn = [&](const fovea_tensor &rows) -> Status {
    if (call.options.rotary == nullptr) return FOVEA_OK;
    const size_t size = most_rotary_memory(*call.context, call.weights->head_dim);
    return within("options.rotary",
                  rotary_in(call.rotary_memory.in(memory), size, *call.context, &rows, &rows, &call.rotary));
  };
  FOVEA_CHECK(turn(t.query));
  if (!call.needs_keys) return FOVEA_OK;
  FOVEA_CHECK(turn(t.key));
  if (call.options.key_pages == nullptr) return FOVEA_OK;
  const fovea_tensor key = as_tokens(t.key), value = as_tokens(t.value);
  write_to_pages(*call.options.schedule, {&key, &value, call.options.key_pages, call.options.value_pages,
                                          call.options.key_scales, call.options.value_scales});
  return FOVEA_OK;
}

HeadRows head_rows(const fovea_tensor &heads) {
  return {heads.data, head_strides(heads), static_cast<Dtype>(heads.dtype)};
}

const Float16 *scales_data(const fovea_tensor *scales) {
  return scales == nullptr ? nullptr : static_cast<const Float16 *>(scales->data);
}

// Of rows of one element, whatever the last stride.
fovea_tensor by_elements(fovea_tensor tensor) {
  tensor.shape[tensor.rank] = tensor.strides[tensor.rank] = 1;
  ++tensor.rank;
  return tensor;
}

void attend(const MultiHeadCall &call, const HeadTensors &t, void *memory) {
  const fovea_schedule *schedule = call.options.schedule;
  if (schedule == nullptr) return run_attention(call.plan.attention, call.plan.call, memory);
  RaggedRows rows = {.query = head_rows(t.query),
                     .key = head_rows(t.key),
                     .value = head_rows(t.value),
                     .out = t.out.data,
                     .out_strides = head_strides(t.out)};
  if (call.options.key_pages != nullptr) {
    rows.key.data = call.options.key_pages->data;
    rows.value.data = call.options.value_pages->data;
    rows.key.scales.data = scales_data(call.options.key_scales);
    rows.value.scales.data = scales_data(call.options.value_scales);
  }
  if (const fovea_tensor *slopes = call.attention.alibi_slopes) {
    rows.alibi_slopes = static_cast<const float *>(slopes->data);
    rows.alibi_stride = slopes->strides[0];
  }
  if (const fovea_tensor *sinks = call.attention.sinks) {
    rows.sinks = static_cast<const float *>(sinks->data);
    rows.sinks_stride = sinks->strides[0];
  }
  run_schedule_on(*schedule, rows, memory);
}

Status run_once(MultiHeadCall *call, const MultiHeadTensors &tensors) {
  const Workspace workspace(*call->context, call->layout);
  FOVEA_CHECK(workspace.status());
  return run_multi_head(tensors, workspace.data(), call);  // null: nothing to project
}

}  // namespace

Status run_heads(const MultiHeadTensors &tensors, void *memory, MultiHeadCall *call) {
  FOVEA_CHECK(check_multi_head_data(tensors, memory, call));
  const bool has_memory = memory != nullptr || call->kept != nullptr;
  for (int n = 0; n < call->input_count && has_memory; ++n) {
    const Projection &input = call->input[n];
    project(*call, memory, input, (call->*input.x).data, input.out.in(memory));
  }
  const HeadTensors heads = head_tensors(*call, memory);
  FOVEA_CHECK(place_heads(*call, heads, memory));
  if (!call->attends) return FOVEA_OK;
  attend(*call, heads, call->attention_memory.in(memory));
  if (call->kept != nullptr && !call->attention_keeps) {
    copy_rows(*call->context, by_elements(call->plan.call.tensor[log_sum_exp_operand]),
              by_elements(call->kept_log_sum_exp));
  }
  return FOVEA_OK;
}

Status run_multi_head(const MultiHeadTensors &tensors, void *memory, MultiHeadCall *call) {
  FOVEA_CHECK(run_heads(tensors, memory, call));
  if (!call->attends) return FOVEA_OK;
  if (call->weights->out.inputs > 0) {
    project(*call, memory, call->last, call->concat_rows.in(memory), call->out.data);
  } else if (call->kept != nullptr) {
    const Sequences &out = call->out;
    const fovea_tensor to = {out.data,
                             static_cast<fovea_dtype>(out.dtype),
                             3,
                             {out.batch, out.length, out.features},
                             {out.batch_stride, out.row_stride, 1}};
    copy_rows(*call->context, contiguous_tensor(call->concat_rows.in(memory), FOVEA_F32, 3, to.shape), to);
  }
  return FOVEA_OK;
}

Status multi_head_attention(const Context *given, const fovea_mha_weights *weights, const MultiHeadTensors &tensors,
                            const fovea_mha_options *options) {
  MultiHeadCall call = {};
  call.has_data = true;
  FOVEA_CHECK(check_multi_head(given, weights, tensors, options, &call));
  FOVEA_CHECK(plan_multi_head(&call));
  return run_once(&call, tensors);
}

Status multi_head_attention_once(const Context *given, const fovea_mha_parameters *parameters,
                                 const MultiHeadTensors &tensors, const fovea_mha_options *options) {
  fovea_mha_weights weights;
  MultiHeadCall call = {};
  call.has_data = true;
  call.parameters = parameters;
  FOVEA_CHECK(plan_mha_weights(given, parameters, &weights));
  FOVEA_CHECK(check_multi_head(given, &weights, tensors, options, &call));
  FOVEA_CHECK(plan_multi_head(&call));
  if (call.layout.size() > 0 || call.kept != nullptr) {
    FOVEA_CHECK(pack_mha_weights(*call.context, *parameters, &weights));
  }
  return run_once(&call, tensors);
}

}  // namespace fovea
