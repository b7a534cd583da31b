// Lays out the workspace of multi-head attention, and plans projections, and attention, over views of it.
#include <algorithm>

#include "ops/attention/attention.hpp"
#include "ops/multi_head/call.hpp"
#include "ops/positions/rotary.hpp"
#include "ops/products/row_copies.hpp"

namespace fovea {
namespace {

using PackedLinear = fovea_mha_weights::PackedLinear;

// Inputs of bfloat16 stay so where the processor multiplies it: half the bytes, twice the rate. Those of float32 become
// bfloat16 where that is allowed. A schedule has been made for one type.
Dtype between_steps(const MultiHeadCall &call) {
  const auto all_of = [&](Dtype dtype, Dtype other) {
    bool all = true;
    for (const Sequences *x : {&call.query, &call.key, &call.value})
      all = all && (x->dtype == dtype || x->dtype == other);
    return all;
  };
  if (call.options.schedule != nullptr) return call.options.schedule->made.checked.query.dtype;
  const bool narrows = call.medium && all_of(Dtype::f32, Dtype::bf16);
  if (call.backward || call.kept != nullptr) return Dtype::f32;
  const bool may = narrows || all_of(Dtype::bf16, Dtype::bf16);
  return may && multiplies_bfloat16(*call.weights->kernels) ? Dtype::bf16 : Dtype::f32;
}

// Rows of queries, keys, values and of what attention gives: in the workspace, in whole panels; or kept, without gaps, and
// log-sum-exp behind them. Side by side where one product writes them.
Status lay_out(MultiHeadCall *call) {
  const fovea_mha_weights &w = *call->weights;
  const fovea_tensor *kept = call->kept;
  float *at = kept == nullptr ? nullptr : static_cast<float *>(kept->data);
  const int64_t query_len = call->query.length;
  const int64_t key_len = call->needs_keys ? call->key.length : 0;
  const auto take = [&](int64_t batch, int64_t length, int64_t row) {
    if (kept == nullptr) {
      const auto size = static_cast<int64_t>(dtype_size(call->between));
      return ProjectedRows{call->layout.add<char>({batch, length, row, size}), call->between, 0, row};
    }
    const ProjectedRows taken = {{}, call->between, 0, row, at};
    at += batch * length * row;
    return taken;
  };
  const auto beside = [](ProjectedRows rows, int64_t columns) {
    rows.column += columns;
    return rows;
  };
  const auto width = [&](const PackedLinear &linear) { return kept == nullptr ? linear.padded : linear.outputs; };
  const int64_t query = width(w.query), key = width(w.key), value = width(w.value);
  if (call->one_input && call->projects_keys) {
    call->query_rows = take(call->query.batch, query_len, query + key + value);
    call->key_rows = beside(call->query_rows, query);
    call->value_rows = beside(call->key_rows, key);
  } else {
    call->query_rows = take(call->query.batch, query_len, query);
    call->key_rows = take(call->key.batch, key_len, call->one_memory ? key + value : key);
    call->value_rows = call->one_memory ? beside(call->key_rows, key) : take(call->key.batch, key_len, value);
  }
  const bool has_rows = w.out.inputs > 0 || kept != nullptr;  // else attention writes out
  call->concat_rows = take(call->query.batch, has_rows ? query_len : 0, w.heads * w.value_dim);
  const int64_t sizes[] = {call->query.batch, w.heads, query_len};
  call->kept_log_sum_exp = contiguous_tensor(at, FOVEA_F32, 3, sizes);
  if (call->layout.fits()) return FOVEA_OK;
  return fail(FOVEA_SIZE_OVERFLOW, "query and key are too long: their projections would exceed the address space");
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

struct Destination {
  Dtype dtype;
  int64_t batch_stride, row_stride;
};

Projection plan_product(const MultiHeadCall &call, const Sequences &x, const PackedLinear &first, int64_t columns,
                        const Destination &out) {
  Projection planned = {
      .product = {.kernels = &product_kernels(*call.weights->kernels, x.dtype, first.dtype, call.medium),
                  .matrix = {.columns = columns, .depth = first.inputs, .dtype = first.dtype},
                  .types = {.x = x.dtype, .out = out.dtype}},
      .weight = &first,
      .x = nullptr,
      .out = {}};
  set_rows({{x.batch, x.batch_stride, out.batch_stride}, {x.length, x.row_stride, out.row_stride}}, &planned.product);
  return planned;
}

void plan_input_projections(MultiHeadCall *call) {
  const fovea_mha_weights &w = *call->weights;
  call->input_count = 0;
  const auto add = [&](Sequences MultiHeadCall::*input, const PackedLinear &first, int64_t columns,
                       const ProjectedRows &rows) {
    const Sequences &x = call->*input;
    Projection &planned = call->input[call->input_count++];
    planned = plan_product(*call, x, first, columns, {rows.dtype, x.length * rows.row_stride, rows.row_stride});
    planned.x = input;
    planned.out = rows;
  };
  if (!call->needs_keys) return add(&MultiHeadCall::query, w.query, w.query.outputs, call->query_rows);
  // One product for parts that share their input, unless it would spend registers on the padding between them.
  const int64_t lanes = w.kernels->rowwise->lanes;
  const bool one_type = w.key.dtype == w.value.dtype;
  const int64_t most_padding = call->kept != nullptr ? 0 : lanes - 1;
  const bool dense =
      one_type && w.query.padded - w.query.outputs <= most_padding && w.key.padded - w.key.outputs <= most_padding;
  if (call->one_input && dense && w.query.dtype == w.key.dtype) {
    return add(&MultiHeadCall::query, w.query, w.query.padded + w.key.padded + w.value.outputs, call->query_rows);
  }
  add(&MultiHeadCall::query, w.query, w.query.outputs, call->query_rows);
  if (call->one_memory && dense) return add(&MultiHeadCall::key, w.key, w.key.padded + w.value.outputs, call->key_rows);
  add(&MultiHeadCall::key, w.key, w.key.outputs, call->key_rows);
  add(&MultiHeadCall::value, w.value, w.value.outputs, call->value_rows);
}

void plan_last_projection(MultiHeadCall *call) {
  const PackedLinear &out = call->weights->out;
  const int64_t row = call->concat_rows.row_stride;
  const Sequences x = {nullptr, call->between, call->query.batch, call->query.length, row, call->query.length * row,
                       row};
  call->last =
      plan_product(*call, x, out, out.outputs, {call->out.dtype, call->out.batch_stride, call->out.row_stride});
}

// And room for copies of their rows.
void plan_projections(MultiHeadCall *call) {
  plan_input_projections(call);
  int64_t words = 0;
  for (int n = 0; n < call->input_count; ++n) words = std::max(words, row_copy_words(call->input[n].product));
  if (call->weights->out.inputs > 0) {
    plan_last_projection(call);
    words = std::max(words, row_copy_words(call->last.product));
  }
  call->copies = call->layout.add<float>(words);
}

// The caller's options, but for a precision that is this call's unless they have their own.
Status attention_options(const MultiHeadCall &call, fovea_attention_options *options) {
  FOVEA_CHECK(read_options("options", call.options.attention, options));
  options->struct_size = sizeof *options;
  if (options->precision == FOVEA_PRECISION_DEFAULT) {
    options->precision = call.options.precision == FOVEA_PRECISION_DEFAULT && call.weights->medium
                             ? FOVEA_PRECISION_MEDIUM
                             : call.options.precision;
  }
  return FOVEA_OK;
}

Status plan_scheduled_heads(MultiHeadCall *call) {
  call->attention_memory = call->layout.add<char>(static_cast<int64_t>(call->options.schedule->plan.workspace_size));
  if (call->layout.fits()) return FOVEA_OK;
  return fail(FOVEA_SIZE_OVERFLOW,
              "query and key are too long: the workspace of this call would exceed the address space");
}

// Everything else about attention itself, and its part of the workspace. A log-sum-exp that the caller wants, too, is
// copied to what is kept.
Status plan_heads(MultiHeadCall *call) {
  if (call->options.schedule != nullptr) return plan_scheduled_heads(call);
  const HeadTensors t = head_tensors(*call, nullptr);
  fovea_attention_options options = {};
  FOVEA_CHECK(within("options.attention", attention_options(*call, &options)));
  call->attention_keeps = call->kept != nullptr && options.log_sum_exp == nullptr;
  if (call->attention_keeps) options.log_sum_exp = &call->kept_log_sum_exp;
  const Status status = prepare_attention(
      call->context, {call->options.score, &t.query, &t.key, nullptr, &t.value, &t.out, &options}, &call->plan);
  FOVEA_CHECK(within("options.attention", status));
  call->attention_memory = call->layout.add<char>(static_cast<int64_t>(call->plan.attention.workspace_size));
  if (call->layout.fits()) return FOVEA_OK;
  return fail(FOVEA_SIZE_OVERFLOW,
              "query and key are too long: the workspace of this call would exceed the address space");
}

}  // namespace

HeadTensors head_tensors(const MultiHeadCall &call, void *memory) {
  const fovea_mha_weights &w = *call.weights;
  HeadTensors t = {};
  t.query = heads_of(call.query_rows, memory, call.query, w.heads, w.head_dim);
  t.key = heads_of(call.key_rows, memory, call.key, w.kv_heads, w.key_dim);
  t.value = heads_of(call.value_rows, memory, call.value, w.kv_heads, w.value_dim);
  t.out = heads_of(call.concat_rows, memory, call.query, w.heads, w.value_dim);
  if (w.out.inputs == 0 && call.kept == nullptr) {
    t.out.data = call.out.data;
    t.out.dtype = static_cast<fovea_dtype>(call.out.dtype);
    t.out.strides[0] = call.out.batch_stride;
    t.out.strides[2] = call.out.row_stride;
  }
  return t;
}

Status plan_multi_head(MultiHeadCall *call) {
  call->layout = {};
  call->between = between_steps(*call);
  FOVEA_CHECK(lay_out(call));
  plan_projections(call);
  if (call->options.rotary != nullptr && (call->attends || call->needs_keys)) {
    const size_t size = most_rotary_memory(*call->context, call->weights->head_dim);
    call->rotary_memory = call->layout.add<char>(static_cast<int64_t>(size));
  }
  return plan_heads(call);
}

}  // namespace fovea
