// Computes the heads and what attention makes of them again, unless they were kept, then goes back: through the last
// projection, attention, rotary and the first projections. All between is float32.
#include "ops/multi_head/backward.hpp"

#include <memory>

#include "ops/gradients/gradients.hpp"
#include "ops/layer_gradients/check.hpp"
#include "ops/layer_gradients/projection.hpp"
#include "ops/multi_head/backward_check.hpp"
#include "ops/multi_head/check.hpp"
#include "ops/multi_head/weights_check.hpp"
#include "ops/positions/rotary.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

// The forward call with what goes back through it.
struct Backward {
  explicit Backward(const MultiHeadTensors &given) : tensors(given) {}

  const Context *context = nullptr;
  const MultiHeadTensors &tensors;
  fovea_mha_parameters parameters = {};
  fovea_mha_options options = {};
  fovea_attention_options attention = {};
  MultiHeadGradients gradients = {};
  WeightSources sources = {};
  fovea_mha_weights weights;
  MultiHeadCall call = {};
  fovea_tensor log_sum_exp = {};
  fovea_tensor projected[2] = {};  // hidden units of queries and keys, which attention's two passes share
  // In call.layout's memory: heads' gradients, rows of [heads x dim], and of the rows that attention gave.
  MemoryPart<float> grad_heads[3], grad_concat, log_sum_exp_memory, projected_memory[2];
  MemoryPart<float> input_sums[3];  // of gradients of query, key and value that are sums, and rounded once

  bool in_out() const { return parameters.layout == FOVEA_WEIGHT_IN_OUT; }
};

// A projection of an input: query's, key's or value's.
struct InputPart {
  const fovea_tensor *x;  // null: as the one before
  const WeightSource *source;
  int64_t heads, dim;
  int input;  // whose gradient goes to: 0 query, 1 key, 2 value
};

InputPart part_of(const Backward &b, int part) {
  const fovea_mha_weights &w = b.weights;
  const bool has_key = b.tensors.key != nullptr, has_value = b.tensors.value != nullptr;
  const TensorArgument &key = has_key ? b.tensors.key : b.tensors.query;
  const TensorArgument &value = has_value ? b.tensors.value : key;
  const int key_input = has_key ? 1 : 0;
  if (part == query_part) return {b.tensors.query, &b.sources.query, w.heads, w.head_dim, 0};
  if (part == key_part) return {key, &b.sources.key, w.kv_heads, w.key_dim, key_input};
  return {value, &b.sources.value, w.kv_heads, w.value_dim, has_value ? 2 : key_input};
}

const TensorArgument &input_gradient(const Backward &b, int input) {
  return input == 0 ? b.gradients.query : input == 1 ? b.gradients.key : b.gradients.value;
}

// [N,K] as a model's weight lies.
fovea_tensor matrix_of(const WeightSource &source) {
  const ProductMatrix &m = source.matrix;
  return {const_cast<void *>(source.data),
          static_cast<fovea_dtype>(m.dtype),
          2,
          {m.columns, m.depth},
          {m.column_stride, m.depth_stride}};
}

// `outputs` of a gradient from `first` on.
fovea_tensor outputs_of(const fovea_tensor &gradient, int axis, int64_t first, int64_t outputs) {
  fovea_tensor some = gradient;
  some.shape[axis] = outputs;
  if (some.data != nullptr) {
    some.data = element_at(some.data, static_cast<Dtype>(some.dtype), first * some.strides[axis]);
  }
  return some;
}

// Where a part's gradients of its weight and bias go: tensors of their own, or outputs of those that hold all three.
struct PartGradients {
  bool has_weight, has_bias;
  fovea_tensor weight, bias;
};

PartGradients gradients_of(const Backward &b, int part) {
  const MultiHeadGradients &g = b.gradients;
  const bool together = b.parameters.in_weight != nullptr && part < in_part;
  const int from = together ? in_part : part;
  PartGradients its = {};
  its.has_weight = g.weights[from] != nullptr;
  its.has_bias = g.biases[from] != nullptr;
  if (its.has_weight) its.weight = *g.weights[from];
  if (its.has_bias) its.bias = *g.biases[from];
  if (!together) return its;
  int64_t first = 0;
  for (int before = 0; before < part; ++before) first += part_of(b, before).heads * part_of(b, before).dim;
  const InputPart its_part = part_of(b, part);
  const int64_t outputs = its_part.heads * its_part.dim;
  if (its.has_weight) its.weight = outputs_of(its.weight, b.in_out() ? 1 : 0, first, outputs);
  if (its.has_bias) its.bias = outputs_of(its.bias, 0, first, outputs);
  return its;
}

bool wants_part(const Backward &b, int part) {
  const PartGradients its = gradients_of(b, part);
  return its.has_weight || its.has_bias || input_gradient(b, part_of(b, part).input) != nullptr;
}

const Sequences &rows_of(const Backward &b, int part) { return part == query_part ? b.call.query : b.call.key; }

// Options of the forward call as it is computed again: nothing of it is kept but log-sum-exp and hidden units.
Status read_forward(const fovea_mha_parameters *parameters, const fovea_mha_options *options, Backward *b) {
  FOVEA_CHECK(expect_given(parameters, "parameters", "the layer's parameters"));
  FOVEA_CHECK(read_options("parameters", parameters, &b->parameters));
  b->parameters.struct_size = sizeof b->parameters;
  b->parameters.precision = FOVEA_PRECISION_HIGHEST;
  FOVEA_CHECK(read_parameters(*b->context, b->parameters, &b->sources, &b->weights));
  FOVEA_CHECK(plan_mha_weights(b->context, &b->parameters, &b->weights));
  FOVEA_CHECK(read_options("options", options, &b->options));
  FOVEA_CHECK(check_backward_options(b->options));
  b->options.struct_size = sizeof b->options;
  b->options.precision = FOVEA_PRECISION_HIGHEST;
  FOVEA_CHECK(within("options.attention", read_options("options", b->options.attention, &b->attention)));
  b->attention.struct_size = sizeof b->attention;
  b->attention.precision = FOVEA_PRECISION_HIGHEST;
  b->attention.log_sum_exp = b->attention.weights = b->attention.scores = nullptr;
  b->attention.projected_query = b->attention.projected_key = nullptr;
  b->options.attention = &b->attention;
  return FOVEA_OK;
}

// What the loss changes by for what attention gives, [B,H,Q,Dv]: the last projection's, or out's own.
fovea_tensor grad_of_concat(const Backward &b, void *memory) {
  const fovea_mha_weights &w = b.weights;
  const Sequences &query = b.call.query;
  const fovea_tensor &out = *b.gradients.out;
  fovea_tensor grad = {nullptr, out.dtype, 4, {query.batch, w.heads, query.length, w.value_dim}, {}};
  grad.strides[1] = w.value_dim;
  grad.strides[3] = 1;
  if (w.out.inputs == 0) {
    grad.data = out.data;
    grad.strides[0] = out.rank == 3 ? out.strides[0] : 0;
    grad.strides[2] = out.strides[out.rank - 2];
    return grad;
  }
  grad.data = b.grad_concat.in(memory);
  grad.dtype = FOVEA_F32;
  grad.strides[2] = w.heads * w.value_dim;
  grad.strides[0] = query.length * grad.strides[2];
  return grad;
}

// Heads' gradients as [B,heads,L,dim].
fovea_tensor head_gradient(const Backward &b, int part, void *memory) {
  const InputPart its = part_of(b, part);
  const Sequences &rows = rows_of(b, part);
  const int64_t row = its.heads * its.dim;
  return {b.grad_heads[part].in(memory),
          FOVEA_F32,
          4,
          {rows.batch, its.heads, rows.length, its.dim},
          {rows.length * row, its.dim, row, 1}};
}

// Rows [B,L,features] in the workspace, or [L,features] where tensors have no batch.
fovea_tensor rows_in(const Backward &b, float *data, const Sequences &like, int64_t features, int64_t row_stride) {
  fovea_tensor rows = {
      data, FOVEA_F32, 3, {like.batch, like.length, features}, {like.length * row_stride, row_stride, 1}};
  if (b.tensors.query->rank == 3) return rows;
  return {data, FOVEA_F32, 2, {like.length, features}, {row_stride, 1}};
}

// Attention's backward pass over the heads. What was asked for in gradients.attention is written here.
struct AttentionBackward {
  HeadTensors heads;
  fovea_tensor grad_out, grad_heads[3];
  fovea_attention_options options;
  fovea_attention_gradients gradients;
  AttentionArguments arguments;

  AttentionBackward(const Backward &b, void *memory)
      : heads(head_tensors(b.call, memory)),
        grad_out(grad_of_concat(b, memory)),
        options(b.attention),
        gradients(b.gradients.attention) {
    for (int part = query_part; part <= value_part; ++part) grad_heads[part] = head_gradient(b, part, memory);
    options.log_sum_exp = &b.log_sum_exp;
    gradients.out = &grad_out;
    gradients.query = wants_part(b, query_part) ? &grad_heads[query_part] : nullptr;
    gradients.key = wants_part(b, key_part) ? &grad_heads[key_part] : nullptr;
    gradients.value = wants_part(b, value_part) ? &grad_heads[value_part] : nullptr;
    arguments = {b.options.score, &heads.query, &heads.key, nullptr, &heads.value, &heads.out, &options};
  }
  AttentionBackward(const AttentionBackward &) = delete;
  AttentionBackward &operator=(const AttentionBackward &) = delete;
};

void add_memory(Backward *b) {
  MemoryLayout &layout = b->call.layout;
  const fovea_mha_weights &w = b->weights;
  const Sequences &query = b->call.query;
  if (b->call.kept == nullptr) b->log_sum_exp_memory = layout.add<float>({query.batch, w.heads, query.length});
  for (int side = 0; side < 2; ++side) {
    const int64_t(&sizes)[FOVEA_MAX_RANK] = b->projected[side].shape;
    b->projected_memory[side] = layout.add<float>({sizes[0], sizes[1], sizes[2], sizes[3]});
  }
  for (int part = query_part; part <= value_part; ++part) {
    const InputPart its = part_of(*b, part);
    const Sequences &rows = rows_of(*b, part);
    b->grad_heads[part] = layout.add<float>({rows.batch, rows.length, its.heads, its.dim});
  }
  // Where there is no last projection, this is where the forward call writes its out.
  b->grad_concat = layout.add<float>({query.batch, query.length, w.heads, w.value_dim});
  for (int input = 0; input < 3; ++input) {
    const TensorArgument &grad = input_gradient(*b, input);
    int parts = 0;
    for (int part = query_part; part <= value_part; ++part) parts += part_of(*b, part).input == input ? 1 : 0;
    if (grad == nullptr || parts < 2 || grad->dtype == FOVEA_F32) continue;
    const Sequences &rows = input == 0 ? query : b->call.key;
    b->input_sums[input] = layout.add<float>({rows.batch, rows.length, grad->shape[grad->rank - 1]});
  }
}

Status keep_hidden_units(Backward *b) {
  AttentionCall its = {};
  FOVEA_CHECK(read_score(b->options.score, &its));
  if (!has_hidden_units(its.score.kind)) return FOVEA_OK;
  const MultiHeadCall &call = b->call;
  const int64_t units = its.tensor[score_vector_operand].shape[0];
  const int64_t queries[] = {call.query.batch, b->weights.heads, call.query.length, units};
  const int64_t keys[] = {call.query.batch, b->weights.kv_heads, call.key.length, units};
  b->projected[0] = contiguous_tensor(nullptr, FOVEA_F32, 4, queries);
  b->projected[1] = contiguous_tensor(nullptr, FOVEA_F32, 4, keys);
  b->attention.projected_query = &b->projected[0];
  b->attention.projected_key = &b->projected[1];
  return FOVEA_OK;
}

// Plans the forward call, and checks everything.
Status plan(Backward *b) {
  MultiHeadTensors tensors = b->tensors;
  const fovea_mha_weights &w = b->weights;
  fovea_tensor out = {};
  if (tensors.query != nullptr) {
    // Stands for one until there is memory.
    out = *b->tensors.query;
    const bool fits = out.rank >= 1 && out.rank <= FOVEA_MAX_RANK;
    if (fits) out.shape[out.rank - 1] = w.out.inputs > 0 ? w.out.outputs : w.heads * w.value_dim;
    out = contiguous_tensor(out.data, out.dtype, out.rank, out.shape);
    tensors.out = &out;
  }
  MultiHeadCall &call = b->call;
  call.has_data = call.backward = true;
  call.idle = !writes_any(b->gradients);
  FOVEA_CHECK(check_multi_head(b->context, &b->weights, tensors, &b->options, &call));
  FOVEA_CHECK(check_mha_gradients(b->tensors, b->parameters, call, b->gradients));
  if (call.kept == nullptr) {
    const int64_t sizes[] = {call.query.batch, w.heads, call.query.length};
    b->log_sum_exp = contiguous_tensor(nullptr, FOVEA_F32, 3, sizes);
    b->attention.log_sum_exp = &b->log_sum_exp;
    FOVEA_CHECK(keep_hidden_units(b));
  }
  call.out.dtype = Dtype::f32;
  call.out.row_stride = call.out.features;
  call.out.batch_stride = call.out.length * call.out.features;
  FOVEA_CHECK(plan_multi_head(&call));
  if (call.kept != nullptr) b->log_sum_exp = call.kept_log_sum_exp;
  const AttentionBackward attention(*b, nullptr);
  fovea_plan *checked = nullptr;
  FOVEA_CHECK(within("gradients.attention",
                     make_gradient_plan(b->context, attention.arguments, &attention.gradients, &checked)));
  const std::unique_ptr<fovea_plan> destroyed(checked);
  add_memory(b);
  if (call.layout.fits()) return FOVEA_OK;
  return too_large_for_sums("query");
}

// The gradients of an input's projection, once those of its heads are there.
Status go_back_to_input(const Backward &b, int part, bool is_first, void *memory) {
  if (!wants_part(b, part)) return FOVEA_OK;
  const InputPart its = part_of(b, part);
  const int64_t outputs = its.heads * its.dim;
  const fovea_tensor h = rows_in(b, b.grad_heads[part].in(memory), rows_of(b, part), outputs, outputs);
  const PartGradients gradients = gradients_of(b, part);
  if (gradients.has_weight) {
    FOVEA_CHECK(add_up_weight(*b.context, h, *its.x, b.in_out(), gradients.weight));
  }
  if (gradients.has_bias) FOVEA_CHECK(add_up_bias(*b.context, h, gradients.bias));
  const TensorArgument &grad = input_gradient(b, its.input);
  if (grad == nullptr) return FOVEA_OK;
  float *sum = b.input_sums[its.input].in(memory);
  fovea_tensor to = *grad;
  if (sum != nullptr) {
    const int64_t features = grad->shape[grad->rank - 1];
    to = rows_in(b, sum, rows_of(b, part), features, features);
  }
  return project_back(*b.context, h, matrix_of(*its.source), !is_first, to);
}

Status go_back(const Backward &b, void *memory) {
  const fovea_mha_weights &w = b.weights;
  const int64_t concat = w.heads * w.value_dim;
  const fovea_tensor &grad_out = *b.gradients.out;
  if (w.out.inputs > 0) {
    const fovea_tensor to = rows_in(b, b.grad_concat.in(memory), b.call.query, concat, concat);
    FOVEA_CHECK(project_back(*b.context, grad_out, matrix_of(b.sources.out), false, to));
  }
  const AttentionBackward attention(b, memory);
  FOVEA_CHECK(within("gradients.attention", attend_backward(b.context, attention.arguments, &attention.gradients)));
  if (w.out.inputs > 0) {
    const PartGradients out = gradients_of(b, out_part);
    const fovea_tensor x =
        rows_in(b, static_cast<float *>(b.call.concat_rows.in(memory)), b.call.query, concat, concat);
    if (out.has_weight) FOVEA_CHECK(add_up_weight(*b.context, grad_out, x, b.in_out(), out.weight));
    if (out.has_bias) FOVEA_CHECK(add_up_bias(*b.context, grad_out, out.bias));
  }
  if (b.options.rotary != nullptr) {
    fovea_rotary_options back = b.call.rotary;
    back.flags ^= FOVEA_ROTARY_INVERSE;
    for (int part = query_part; part <= key_part; ++part) {
      const fovea_tensor &heads = attention.grad_heads[part];
      if (wants_part(b, part)) FOVEA_CHECK(rotary(b.context, &heads, &heads, &back));
    }
  }
  bool written[3] = {};
  for (int part = query_part; part <= value_part; ++part) {
    bool &is_written = written[part_of(b, part).input];
    FOVEA_CHECK(go_back_to_input(b, part, !is_written, memory));
    is_written = true;
  }
  for (int input = 0; input < 3; ++input) {
    float *sum = b.input_sums[input].in(memory);
    if (sum == nullptr) continue;
    const fovea_tensor &grad = *input_gradient(b, input);
    const int64_t features = grad.shape[grad.rank - 1];
    copy_rows(*b.context, rows_in(b, sum, input == 0 ? b.call.query : b.call.key, features, features), grad);
  }
  return FOVEA_OK;
}

Status run(Backward *b) {
  MultiHeadCall &call = b->call;
  MultiHeadTensors tensors = b->tensors;
  tensors.out = nullptr;
  if (call.idle) return check_without_values(tensors, b->gradients, &call);
  const bool computes_again = call.kept == nullptr && call.layout.size() > 0;
  if (computes_again) FOVEA_CHECK(pack_mha_weights(*b->context, b->parameters, &b->weights));
  const Workspace workspace(*b->context, call.layout);
  FOVEA_CHECK(workspace.status());
  void *memory = workspace.data();
  if (call.kept == nullptr) b->log_sum_exp.data = b->log_sum_exp_memory.in(memory);
  call.plan.call.tensor[log_sum_exp_operand].data = b->log_sum_exp.data;
  for (int side = 0; side < 2; ++side) {
    b->projected[side].data = b->projected_memory[side].in(memory);
    call.plan.call.tensor[projected_query_operand + side].data = b->projected[side].data;
  }
  call.out.data = b->grad_concat.in(memory);
  FOVEA_CHECK(check_mha_gradient_overlaps(tensors, call, b->gradients));
  FOVEA_CHECK(call.kept == nullptr ? run_heads(tensors, memory, &call) : check_multi_head_data(tensors, memory, &call));
  return go_back(*b, memory);
}

}  // namespace

Status multi_head_attention_backward(const Context *given, const fovea_mha_parameters *parameters,
                                     const MultiHeadTensors &tensors, const fovea_mha_options *options,
                                     const fovea_mha_gradients *gradients) {
  Backward b(tensors);
  FOVEA_CHECK(resolve_context(given, &b.context));
  FOVEA_CHECK(read_forward(parameters, options, &b));
  FOVEA_CHECK(read_mha_gradients(gradients, &b.gradients));
  b.call.parameters = &b.parameters;
  FOVEA_CHECK(plan(&b));
  return run(&b);
}

}  // namespace fovea
