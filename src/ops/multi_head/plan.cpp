// Lays out the workspace of multi-head attention, and plans attention over views of it.
#include "ops/attention/attention.hpp"
#include "ops/multi_head/call.hpp"
#include "runtime/cpu.hpp"

namespace fovea {
namespace {

// Inputs of bfloat16 stay so where the processor multiplies it: half the bytes, twice the rate. Rotary turns float32.
Dtype between_steps(const MultiHeadCall &call) {
  const bool narrow =
      call.query.dtype == Dtype::bf16 && call.key.dtype == Dtype::bf16 && call.value.dtype == Dtype::bf16;
  const bool pairs = call.context->kernels->matmul_pairs != nullptr && cpu_has_bfloat16_products();
  return narrow && pairs && call.options.rotary == nullptr ? Dtype::bf16 : Dtype::f32;
}

// The workspace's rows: side by side where one product writes them.
Status lay_out(MultiHeadCall *call) {
  const fovea_mha_weights &w = *call->weights;
  const int64_t query_len = call->query.length;
  const int64_t key_len = call->needs_keys ? call->key.length : 0;
  const auto take = [&](int64_t batch, int64_t length, int64_t row) {
    const auto size = static_cast<int64_t>(dtype_size(call->between));
    return ProjectedRows{call->layout.add<char>({batch, length, row, size}), call->between, 0, row};
  };
  const auto beside = [](const ProjectedRows &rows, int64_t columns) {
    return ProjectedRows{rows.part, rows.dtype, rows.column + columns, rows.row_stride};
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
fovea_tensor heads_of(const ProjectedRows &rows, void *memory, const Sequences &like, int64_t heads, int64_t dim) {
  const int64_t stride = rows.row_stride;
  return {rows.in(memory),
          static_cast<fovea_dtype>(rows.dtype),
          4,
          {like.batch, heads, like.length, dim},
          {like.length * stride, dim, stride, 1}};
}

// Everything else about attention itself, and its part of the workspace.
Status plan_heads(MultiHeadCall *call) {
  const HeadTensors t = head_tensors(*call, nullptr);
  const Status status = prepare_attention(
      call->context, {call->options.score, &t.query, &t.key, nullptr, &t.value, &t.out, call->options.attention},
      &call->plan);
  FOVEA_CHECK(within("options.attention", status));
  call->attention_memory = call->layout.add<char>(static_cast<int64_t>(call->plan.attention.workspace_size));
  if (call->layout.fits()) return FOVEA_OK;
  return fail(FOVEA_SIZE_OVERFLOW, "the workspace of this call would exceed the address space");
}

}  // namespace

HeadTensors head_tensors(const MultiHeadCall &call, void *memory) {
  const fovea_mha_weights &w = *call.weights;
  HeadTensors t = {};
  t.query = heads_of(call.query_rows, memory, call.query, w.heads, w.head_dim);
  t.new_key = t.key = heads_of(call.key_rows, memory, call.key, w.kv_heads, w.key_dim);
  t.new_value = t.value = heads_of(call.value_rows, memory, call.value, w.kv_heads, w.value_dim);
  t.out = heads_of(call.concat_rows, memory, call.query, w.heads, w.value_dim);
  if (w.out.inputs == 0) {
    t.out.data = call.out.data;
    t.out.dtype = static_cast<fovea_dtype>(call.out.dtype);
    t.out.strides[0] = call.out.batch_stride;
    t.out.strides[2] = call.out.row_stride;
  }
  if (call.options.cache != nullptr) {
    t.key = cached_keys(*call.options.cache, 0, call.key_len);
    t.value = cached_values(*call.options.cache, 0, call.key_len);
  }
  return t;
}

Status plan_multi_head(MultiHeadCall *call) {
  call->between = between_steps(*call);
  FOVEA_CHECK(lay_out(call));
  return plan_heads(call);
}

}  // namespace fovea
