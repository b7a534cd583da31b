// A linear layer with its operands in guarded memory, its packed weight, and the check of what it computes against the
// formula.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "accuracy.hpp"
#include "contexts.hpp"
#include "creation.hpp"
#include "reference.hpp"
#include "tensor.hpp"

namespace testing {

inline constexpr int32_t kActivations[] = {FOVEA_ACTIVATION_NONE, FOVEA_ACTIVATION_RELU, FOVEA_ACTIVATION_GELU,
                                           FOVEA_ACTIVATION_GELU_TANH, FOVEA_ACTIVATION_SILU};

struct DestroyPacked {
  void operator()(fovea_packed_matrix *packed) const { fovea_packed_matrix_destroy(packed); }
};
using Packed = std::unique_ptr<fovea_packed_matrix, DestroyPacked>;

inline Packed pack(const fovea_context *context, const Tensor<float> &weight, int32_t layout = FOVEA_WEIGHT_IN_OUT) {
  const fovea_tensor view = weight.view();
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(linear_pack(context, &view, layout, &packed));
  return Packed(packed);
}

inline Tensor<float> normal(Random &random, const Shape &shape, const Shape &strides) {
  return std::move(Tensor<float>(shape, strides).fill_normal(random));
}
inline Tensor<float> normal(Random &random, const Shape &shape) {
  return normal(random, shape, contiguous_strides(shape));
}

// A layer and its operands. The weight is [K,N], or [N,K] with `out_in`.
struct Layer {
  Tensor<float> x, weight, bias, multiplier, residual;
  Shape out_strides;
  int32_t activation = FOVEA_ACTIVATION_NONE;
  bool out_in = false, has_bias = false, has_multiplier = false, has_residual = false;
  bool in_place = false;             // out is the residual
  bool multiplies_in_place = false;  // out is the multiplier, unless it is the residual

  bool multiplies_out() const { return has_multiplier && multiplies_in_place && !in_place; }
  int64_t depth() const { return x.shape().back(); }
  int64_t columns() const { return weight.shape()[out_in ? 0 : 1]; }
  Shape out_shape() const {
    Shape shape = x.shape();
    shape.back() = columns();
    return shape;
  }
  // A fresh output; where the layer is added to it, or multiplied by it, it holds that.
  Tensor<float> make_out() const {
    Tensor<float> out(out_shape(), out_strides.empty() ? contiguous_strides(out_shape()) : out_strides);
    if (in_place) out.assign(residual.dense());
    if (multiplies_out()) out.assign(multiplier.dense());
    return out;
  }
  fovea_status run(const fovea_context *context, const fovea_packed_matrix *packed, const Tensor<float> &out) const {
    const fovea_tensor x_view = x.view(), out_view = out.view(), bias_view = bias.view();
    const fovea_tensor residual_view = in_place ? out_view : residual.view();
    const fovea_tensor multiplier_view = multiplies_out() ? out_view : multiplier.view();
    fovea_linear_options options = {};
    options.struct_size = sizeof options;
    options.activation = activation;
    options.bias = has_bias ? &bias_view : nullptr;
    options.residual = has_residual ? &residual_view : nullptr;
    options.multiplier = has_multiplier ? &multiplier_view : nullptr;
    return fovea_linear(context, &x_view, packed, &out_view, &options);
  }
};

inline std::vector<float> transposed(const std::vector<float> &from, int64_t rows, int64_t columns) {
  std::vector<float> to(from.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
  return to;
}

inline reference::LinearInputs inputs_of(const Layer &layer) {
  const int64_t depth = layer.depth(), columns = layer.columns();
  int64_t rows = 1;
  for (size_t axis = 0; axis + 1 < layer.x.shape().size(); ++axis) rows *= layer.x.shape()[axis];
  const std::vector<float> weight = layer.weight.dense();
  return {.rows = rows,
          .depth = depth,
          .columns = columns,
          .x = layer.x.dense(),
          .weight = layer.out_in ? transposed(weight, columns, depth) : weight,
          .activation = static_cast<reference::Activation>(layer.activation),
          .bias = layer.has_bias ? layer.bias.dense() : std::vector<float>{},
          .multiplier = layer.has_multiplier ? layer.multiplier.dense() : std::vector<float>{},
          .residual = layer.has_residual ? layer.residual.dense() : std::vector<float>{}};
}

// As for a product: of the terms' magnitudes 2 (K + 2) roundings, which no activation enlarges by more than 1.13; of
// the activation's result 6, of its product with the multiplier, which enlarges all that, and of the sum with the
// residual 1.
inline void check_values(const Layer &layer, const std::vector<float> &out) {
  const reference::LinearInputs inputs = inputs_of(layer);
  const auto truth = reference::linear<double>(inputs);
  const auto plain = reference::linear<float>(inputs);
  double largest = 0;
  std::vector<double> bounds;
  for (size_t i = 0; i < truth.out.size(); ++i) {
    const double magnitude = truth.magnitude[i];
    const double results = 14 * std::abs(truth.activated[i]) + 2 * std::abs(truth.out[i]);
    bounds.push_back(kEpsilon * (2.26 * (2 + static_cast<double>(inputs.depth)) * magnitude + results));
    if (std::isfinite(magnitude + results)) largest = std::max(largest, magnitude + std::abs(truth.out[i]));
  }
  CHECK_ACCURATE(out, truth.out, plain.out, 4 * kEpsilon * largest);
  CHECK_EQ(judge_elements(out, truth.out, plain.out, bounds), "");
}

inline void check_layer(const Layer &layer) {
  for (const Tensor<float> *input : {&layer.x, &layer.weight, &layer.bias, &layer.multiplier, &layer.residual})
    input->memory().freeze();
  CAPTURE(layer.x.shape());
  CAPTURE(layer.columns());
  CAPTURE(layer.activation);
  CAPTURE(layer.out_in);
  CAPTURE(layer.has_bias);
  CAPTURE(layer.has_multiplier);
  CAPTURE(layer.has_residual);
  CAPTURE(layer.in_place);
  CAPTURE(layer.multiplies_in_place);
  for_each_isa([&](const fovea_context *context) {
    const Packed packed =
        pack(context, layer.weight, layer.out_in ? int{FOVEA_WEIGHT_OUT_IN} : int{FOVEA_WEIGHT_IN_OUT});
    const Tensor<float> out = layer.make_out();
    REQUIRE_OK(layer.run(context, packed.get(), out));
    check_values(layer, out.dense());
    CHECK(out.gaps_untouched());
  });
}

// Options drawn at random, memory packed.
inline Layer make_layer(Random &random, const Shape &x_shape, int64_t columns) {
  Layer layer;
  layer.x = normal(random, x_shape);
  layer.out_in = random.chance(0.5);
  const int64_t depth = x_shape.back();
  layer.weight = normal(random, layer.out_in ? Shape{columns, depth} : Shape{depth, columns});
  layer.bias = normal(random, {columns});
  layer.multiplier = normal(random, layer.out_shape());
  layer.residual = normal(random, layer.out_shape());
  layer.activation = random.pick({0, 1, 2, 3, 4});
  layer.has_bias = random.chance(0.6);
  layer.has_residual = random.chance(0.6);
  layer.in_place = layer.has_residual && random.chance(0.5);
  layer.has_multiplier = random.chance(0.3);
  layer.multiplies_in_place = random.chance(0.5);
  return layer;
}

// Packed at that precision.
inline Packed pack_view(const fovea_context *context, const fovea_tensor &weight, bool out_in, int32_t precision) {
  fovea_linear_pack_options options{};
  options.struct_size = sizeof options;
  options.layout = out_in ? int{FOVEA_WEIGHT_OUT_IN} : int{FOVEA_WEIGHT_IN_OUT};
  options.precision = precision;
  fovea_packed_matrix *packed = nullptr;
  REQUIRE_OK(fovea_linear_pack(context, &weight, &options, &packed));
  return Packed(packed);
}

// With nothing behind the product.
inline Layer plain_layer(Random &random, const Shape &x, int64_t columns) {
  Layer layer = make_layer(random, x, columns);
  layer.activation = FOVEA_ACTIVATION_NONE;
  layer.has_bias = layer.has_multiplier = layer.has_residual = layer.in_place = false;
  return layer;
}

// NaNs are alike, all else has the same bits.
inline bool same_but_nan(const std::vector<float> &a, const std::vector<float> &b) {
  bool same = a.size() == b.size();
  for (size_t n = 0; same && n < a.size(); ++n) {
    same = (std::isnan(a[n]) && std::isnan(b[n])) || std::memcmp(&a[n], &b[n], sizeof(float)) == 0;
  }
  return same;
}

}  // namespace testing
