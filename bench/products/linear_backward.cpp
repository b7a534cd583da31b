// Benchmarks of the backward passes of layers, linear_backward/f32/<M>x<N>x<K>_<activation>/... of x, weight and bias,
// and multi_head_backward/f32/<shape>/... of inputs, weights and biases of self-attention. multi_head_training/... is a
// whole step: the forward call with weights that are packed for it, and then that backward call, of what it has kept.
//
// What bounds them: arithmetic. A linear layer's two products, and with an activation the forward pass's once more: 4
// or 6 M N K flops at the multiply-add peak. Both new products turn one operand around: dx = h W of a weight [N,K] does
// not, dW = h^T x has long sums over rows. Multi-head attention's is computed again (all of the forward pass but the
// last projection), and goes back: twice the flops of each projection, and 5 / 2 of attention's. A step needs the forward
// pass once.
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "harness/harness.hpp"
#include "limits/limits.hpp"
#include "products/product.hpp"

namespace fovea_bench {
namespace {

struct LayerShape : ProductSizes {
  int32_t activation = FOVEA_ACTIVATION_NONE;

  double flops() const { return product_flops(*this) * (activation == FOVEA_ACTIVATION_NONE ? 2 : 3); }
};

constexpr LayerShape layer_shapes[] = {
    {{64, 3072, 768}}, {{512, 768, 768}}, {{512, 3072, 768}, FOVEA_ACTIVATION_GELU}, {{4096, 384, 384}}};

struct LayerData {
  const LayerShape &s;
  Buffer x, weight, bias, grad_out, grad_x, grad_weight, grad_bias;

  explicit LayerData(const LayerShape &shape)
      : s(shape),
        x(normals(s.m * s.k)),
        weight(normals(s.n * s.k)),
        bias(normals(s.n)),
        grad_out(normals(s.m * s.n)),
        grad_x(zeros(s.m * s.k)),
        grad_weight(zeros(s.n * s.k)),
        grad_bias(zeros(s.n)) {}

  void run(const fovea_context *context) const {
    const fovea_tensor views[] = {tensor(x.data(), {s.m, s.k}),      tensor(weight.data(), {s.n, s.k}),
                                  tensor(bias.data(), {s.n}),        tensor(grad_out.data(), {s.m, s.n}),
                                  tensor(grad_x.data(), {s.m, s.k}), tensor(grad_weight.data(), {s.n, s.k}),
                                  tensor(grad_bias.data(), {s.n})};
    const fovea_linear_options options = {sizeof options, s.activation, 0, &views[2], nullptr, nullptr};
    const fovea_linear_gradients gradients = {sizeof gradients, &views[3], &views[4], &views[5], &views[6], nullptr};
    check(fovea_linear_backward(context, &views[0], &views[1], FOVEA_WEIGHT_OUT_IN, &options, &gradients));
  }
};

struct MultiHeadShape {
  const char *name;
  int64_t batch, length, hidden, heads;
  bool training = false;  // the forward call, too

  double flops() const {
    const double rows = static_cast<double>(batch * length), width = static_cast<double>(hidden);
    const double projection = 2.0 * rows * width * width;
    const double attention = 4.0 * rows * static_cast<double>(length) * width;
    return projection * ((training ? 4 : 3) + 2 * 4) + attention * (1 + 2.5);
  }
};

constexpr MultiHeadShape multi_head_shapes[] = {
    {"b8_l128_768_12", 8, 128, 768, 12},         {"b1_l512_768_12", 1, 512, 768, 12},
    {"b8_l128_768_12", 8, 128, 768, 12, true},   {"b4_l512_768_12", 4, 512, 768, 12, true},
    {"b1_l2048_768_12", 1, 2048, 768, 12, true},
};

struct MultiHeadData {
  const MultiHeadShape &s;
  Buffer x, in_weight, out_weight, in_bias, out_bias, out, kept, grad_out;
  Buffer grad_x, grad_in, grad_out_weight, grad_in_bias, grad_out_bias;

  explicit MultiHeadData(const MultiHeadShape &shape)
      : s(shape),
        x(normals(rows())),
        in_weight(scaled(3 * s.hidden)),
        out_weight(scaled(s.hidden)),
        in_bias(normals(3 * s.hidden)),
        out_bias(normals(s.hidden)),
        out(zeros(s.training ? rows() : 0)),
        kept(zeros(s.training ? kept_numbers() : 0)),
        grad_out(normals(rows())),
        grad_x(zeros(rows())),
        grad_in(zeros(3 * s.hidden * s.hidden)),
        grad_out_weight(zeros(s.hidden * s.hidden)),
        grad_in_bias(zeros(3 * s.hidden)),
        grad_out_bias(zeros(s.hidden)) {}

  int64_t rows() const { return s.batch * s.length * s.hidden; }
  int64_t kept_numbers() const { return 4 * rows() + s.batch * s.length * s.heads; }
  Buffer scaled(int64_t outputs) const {
    Buffer weight = normals(outputs * s.hidden);
    const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(s.hidden)));
    for (int64_t n = 0; n < outputs * s.hidden; ++n) weight.floats()[n] *= factor;
    return weight;
  }

  void run(const fovea_context *context) const {
    const auto rows_of = [&](const Buffer &buffer) { return tensor(buffer.data(), {s.batch, s.length, s.hidden}); };
    const auto matrix = [&](const Buffer &buffer, int64_t outputs) {
      return tensor(buffer.data(), {outputs, s.hidden});
    };
    const auto vector = [&](const Buffer &buffer, int64_t outputs) { return tensor(buffer.data(), {outputs}); };
    const fovea_tensor given[] = {rows_of(x),
                                  matrix(in_weight, 3 * s.hidden),
                                  matrix(out_weight, s.hidden),
                                  vector(in_bias, 3 * s.hidden),
                                  vector(out_bias, s.hidden),
                                  rows_of(grad_out)};
    const fovea_tensor wanted[] = {rows_of(grad_x), matrix(grad_in, 3 * s.hidden), matrix(grad_out_weight, s.hidden),
                                   vector(grad_in_bias, 3 * s.hidden), vector(grad_out_bias, s.hidden)};
    fovea_mha_parameters parameters{};
    parameters.struct_size = sizeof parameters;
    parameters.heads = s.heads;
    parameters.in_weight = &given[1];
    parameters.out_weight = &given[2];
    parameters.in_bias = &given[3];
    parameters.out_bias = &given[4];
    const fovea_tensor kept_view = vector(kept, kept_numbers());
    fovea_mha_options options{};
    options.struct_size = sizeof options;
    if (s.training) {
      const fovea_tensor out_view = rows_of(out);
      options.kept = &kept_view;
      check(fovea_multi_head_attention_once(context, &parameters, &given[0], nullptr, nullptr, &out_view, &options));
    }
    fovea_mha_gradients gradients{};
    gradients.struct_size = sizeof gradients;
    gradients.out = &given[5];
    gradients.query = &wanted[0];
    gradients.in_weight = &wanted[1];
    gradients.out_weight = &wanted[2];
    gradients.in_bias = &wanted[3];
    gradients.out_bias = &wanted[4];
    check(fovea_multi_head_attention_backward(context, &parameters, &given[0], nullptr, nullptr, &options, &gradients));
  }
};

template <class Data, class Shape>
Prepared prepare(const Shape &shape, const Variant &variant) {
  const auto data = data_of<Data>(shape);
  const auto on = [&](int threads) {
    const std::shared_ptr<fovea_context> context = make_context(variant.isa, threads);
    return [data, context] { data->run(context.get()); };
  };
  Prepared prepared;
  prepared.run = on(variant.threads);
  if (variant.threads > 1) prepared.run_on_one_thread = on(1);
  prepared.shortest_seconds = [=, flops = shape.flops()] {
    return flops / multiply_add_rate(variant.isa, variant.threads, probe_seconds());
  };
  return prepared;
}

}  // namespace

void add_layer_gradients(Cases *list) {
  for (const LayerShape &shape : layer_shapes) {
    const bool gelu = shape.activation != FOVEA_ACTIVATION_NONE;
    list->push_back({.operation = "linear_backward",
                     .model = product_name(shape) + (gelu ? "_gelu" : ""),
                     .bound = Bound::flops,
                     .work = {.flops = shape.flops()},
                     .parameters = product_parameters(shape),
                     .prepare = [&shape](const Variant &variant) { return prepare<LayerData>(shape, variant); }});
  }
  for (const MultiHeadShape &shape : multi_head_shapes) {
    list->push_back({.operation = shape.training ? "multi_head_training" : "multi_head_backward",
                     .model = shape.name,
                     .bound = Bound::flops,
                     .work = {.flops = shape.flops()},
                     .parameters = {{"batch", shape.batch},
                                    {"length", shape.length},
                                    {"hidden", shape.hidden},
                                    {"heads", shape.heads}},
                     .prepare = [&shape](const Variant &variant) { return prepare<MultiHeadData>(shape, variant); }});
  }
}

}  // namespace fovea_bench
