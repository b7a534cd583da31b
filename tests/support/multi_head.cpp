#include "multi_head.hpp"
#include "creation.hpp"

#include <cmath>

namespace testing {
namespace {

struct DestroyPacked {
  void operator()(fovea_packed_matrix *packed) const { fovea_packed_matrix_destroy(packed); }
};

void linear(const fovea_context *context, const fovea_tensor &x, const Tensor<float> &weight, const Tensor<float> &bias,
            const fovea_tensor &out) {
  const fovea_tensor weight_view = weight.view(), bias_view = bias.view();
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(linear_pack(context, &weight_view, FOVEA_WEIGHT_OUT_IN, &packed));
  const std::unique_ptr<fovea_packed_matrix, DestroyPacked> owner(packed);
  auto options = sized_options<fovea_linear_options>();
  if (bias.count() > 0) options.bias = &bias_view;
  REQUIRE_OK(fovea_linear(context, &x, packed, &out, &options));
}

// [B,L,heads * dim] seen as [B,heads,L,dim].
fovea_tensor heads_of(const Tensor<float> &rows, int64_t heads, int64_t dim) {
  fovea_tensor view = rows.view();
  view.rank = 4;
  const int64_t shape[] = {rows.shape()[0], heads, rows.shape()[1], dim};
  const int64_t strides[] = {rows.strides()[0], dim, rows.strides()[1], 1};
  for (int axis = 0; axis < 4; ++axis) {
    view.shape[axis] = shape[axis];
    view.strides[axis] = strides[axis];
  }
  return view;
}

}  // namespace

std::vector<MultiHeadSizes> multi_head_sizes() {
  return {{.batch = 2,
           .query_len = 4,
           .key_len = 6,
           .query_inputs = 100,
           .key_inputs = 100,
           .value_inputs = 100,
           .heads = 5,
           .kv_heads = 5,
           .head_dim = 20,
           .value_dim = 20,
           .outputs = 100},
          {.batch = 3,
           .query_len = 37,
           .key_len = 65,
           .query_inputs = 48,
           .key_inputs = 31,
           .value_inputs = 17,
           .heads = 4,
           .kv_heads = 2,
           .head_dim = 16,
           .value_dim = 24,
           .outputs = 33},
          {.batch = 1,
           .query_len = 130,
           .key_len = 97,
           .query_inputs = 64,
           .key_inputs = 64,
           .value_inputs = 64,
           .heads = 2,
           .kv_heads = 1,
           .head_dim = 32,
           .value_dim = 32,
           .outputs = 64,
           .biases = false},
          {.batch = 2,
           .query_len = 1,
           .key_len = 300,
           .query_inputs = 7,
           .key_inputs = 5,
           .value_inputs = 3,
           .heads = 3,
           .kv_heads = 3,
           .head_dim = 5,
           .value_dim = 7},
          {.batch = 1,
           .query_len = 1,
           .key_len = 1,
           .query_inputs = 1,
           .key_inputs = 1,
           .value_inputs = 1,
           .heads = 1,
           .kv_heads = 1,
           .head_dim = 1,
           .value_dim = 1,
           .outputs = 1}};
}

MhaParameters::MhaParameters(const MultiHead &layer)
    : query_weight(layer.query_weight.view()),
      key_weight(layer.key_weight.view()),
      value_weight(layer.value_weight.view()),
      out_weight(layer.out_weight.view()),
      query_bias(layer.query_bias.view()),
      key_bias(layer.key_bias.view()),
      value_bias(layer.value_bias.view()),
      out_bias(layer.out_bias.view()) {
  parameters.struct_size = sizeof parameters;
  parameters.heads = layer.sizes.heads;
  parameters.kv_heads = layer.sizes.kv_heads;
  parameters.query_weight = &query_weight;
  parameters.key_weight = &key_weight;
  parameters.value_weight = &value_weight;
  const bool projects_out = layer.sizes.outputs > 0;
  if (projects_out) parameters.out_weight = &out_weight;
  if (!layer.sizes.biases) return;
  parameters.query_bias = &query_bias;
  parameters.key_bias = &key_bias;
  parameters.value_bias = &value_bias;
  if (projects_out) parameters.out_bias = &out_bias;
}

MhaWeights MultiHead::make_weights(const fovea_context *context) const {
  const MhaParameters given(*this);
  fovea_mha_weights *weights = nullptr;
  REQUIRE_OK(fovea_mha_weights_create(context, &given.parameters, &weights));
  return MhaWeights(weights);
}

fovea_status MultiHead::run(const fovea_context *context, const MhaWeights &weights, const Tensor<float> &out,
                            const fovea_mha_options *options) const {
  const fovea_tensor q = query.view(), k = key.view(), v = value.view(), o = out.view();
  return fovea_multi_head_attention(context, weights.get(), &q, inputs == Inputs::kOne ? nullptr : &k,
                                    inputs == Inputs::kThree ? &v : nullptr, &o, options);
}

void MultiHead::compose(const fovea_context *context, const Tensor<float> &out,
                        const fovea_attention_options *attention, const fovea_score *score,
                        const fovea_rotary_options *rotary) const {
  const MultiHeadSizes &s = sizes;
  const Tensor<float> q(Shape{s.batch, s.query_len, s.heads * s.head_dim});
  const Tensor<float> k(Shape{s.batch, key_len(), s.kv_heads * s.key_size()});
  const Tensor<float> v(Shape{s.batch, key_len(), s.kv_heads * s.value_dim});
  const Tensor<float> concat(Shape{s.batch, s.query_len, s.heads * s.value_dim});
  linear(context, query.view(), query_weight, query_bias, q.view());
  linear(context, key_input().view(), key_weight, key_bias, k.view());
  linear(context, value_input().view(), value_weight, value_bias, v.view());
  const fovea_tensor q_heads = heads_of(q, s.heads, s.head_dim), k_heads = heads_of(k, s.kv_heads, s.key_size());
  const fovea_tensor v_heads = heads_of(v, s.kv_heads, s.value_dim);
  if (rotary != nullptr) {
    REQUIRE_OK(fovea_rotary(context, &q_heads, &q_heads, rotary));
    REQUIRE_OK(fovea_rotary(context, &k_heads, &k_heads, rotary));
  }
  const Tensor<float> &attended = s.outputs > 0 ? concat : out;
  const fovea_tensor out_heads = heads_of(attended, s.heads, s.value_dim);
  REQUIRE_OK(fovea_attention(context, score, &q_heads, &k_heads, &v_heads, &out_heads, attention));
  if (s.outputs > 0) linear(context, concat.view(), out_weight, out_bias, out.view());
}

reference::MultiHeadInputs MultiHead::reference_inputs() const {
  reference::MultiHeadInputs in;
  in.batch = sizes.batch;
  in.query_len = sizes.query_len;
  in.key_len = key_len();
  in.query_inputs = query.shape()[2];
  in.key_inputs = key_input().shape()[2];
  in.value_inputs = value_input().shape()[2];
  in.heads = sizes.heads;
  in.kv_heads = sizes.kv_heads;
  in.head_dim = sizes.head_dim;
  in.value_dim = sizes.value_dim;
  in.outputs = sizes.outputs;
  in.query = query.dense();
  in.key = key_input().dense();
  in.value = value_input().dense();
  in.query_weight = query_weight.dense();
  in.key_weight = key_weight.dense();
  in.value_weight = value_weight.dense();
  in.out_weight = out_weight.dense();
  if (!sizes.biases) return in;
  in.query_bias = query_bias.dense();
  in.key_bias = key_bias.dense();
  in.value_bias = value_bias.dense();
  in.out_bias = out_bias.dense();
  return in;
}

MultiHead make_multi_head(const MultiHeadSizes &s, Inputs inputs, Random &random) {
  MultiHead layer;
  layer.sizes = s;
  layer.inputs = inputs;
  const auto normal = [&](const Shape &shape) { return std::move(Tensor<float>(shape).fill_normal(random)); };
  const auto weight = [&](int64_t out, int64_t in) {
    const float factor = 1 / std::sqrt(static_cast<float>(in));
    return std::move(Tensor<float>(Shape{out, in}).fill([&] { return factor * random.normal(); }));
  };
  const int64_t key_inputs = inputs == Inputs::kOne ? s.query_inputs : s.key_inputs;
  const int64_t value_inputs = inputs == Inputs::kThree ? s.value_inputs : key_inputs;
  layer.query = normal({s.batch, s.query_len, s.query_inputs});
  if (inputs != Inputs::kOne) layer.key = normal({s.batch, s.key_len, key_inputs});
  if (inputs == Inputs::kThree) layer.value = normal({s.batch, s.key_len, value_inputs});
  layer.query_weight = weight(s.heads * s.head_dim, s.query_inputs);
  layer.key_weight = weight(s.kv_heads * s.key_size(), key_inputs);
  layer.value_weight = weight(s.kv_heads * s.value_dim, value_inputs);
  layer.out_weight = weight(s.outputs, s.heads * s.value_dim);
  const int64_t some = s.biases ? 1 : 0;
  layer.query_bias = normal({some * s.heads * s.head_dim});
  layer.key_bias = normal({some * s.kv_heads * s.key_size()});
  layer.value_bias = normal({some * s.kv_heads * s.value_dim});
  layer.out_bias = normal({some * s.outputs});
  return layer;
}

}  // namespace testing
