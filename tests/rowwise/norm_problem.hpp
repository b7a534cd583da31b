// A layer or RMS normalisation to be run on every instruction set, and how exact it has to be.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "errors.hpp"
#include "reference.hpp"
#include "support/accuracy.hpp"
#include "support/contexts.hpp"
#include "support/tensor.hpp"

namespace testing {

struct NormProblem {
  Tensor<float> x;
  Shape out_strides;
  float epsilon = 0;
  uint32_t flags = 0;
  std::optional<Tensor<float>> residual, weight, bias;
  bool rms = false, weight_from_one = false;
  // Outputs, where there is a tensor.
  std::optional<Tensor<float>> sum, mean, inverse_deviation;

  explicit NormProblem(const Shape &shape) : NormProblem(shape, contiguous_strides(shape)) {}
  NormProblem(const Shape &shape, const Shape &x_strides)
      : x(shape, x_strides), out_strides(contiguous_strides(shape)) {}

  int64_t dim() const { return x.shape().back(); }
  Tensor<float> make_out() const { return Tensor<float>(x.shape(), out_strides); }

  void add_parameters(Random &random) {
    weight.emplace(Shape{dim()}).fill([&] { return 1 + 0.5f * random.normal(); });
    bias.emplace(Shape{dim()}).fill_normal(random);
  }
  void add_residual(Random &random) { residual.emplace(x.shape()).fill_normal(random); }

  // As a layer normalisation, or by the root of the mean square.
  fovea_status run(const fovea_context *context, const fovea_tensor &out) const {
    const fovea_tensor x_view = x.view();
    fovea_tensor views[6];
    const auto view = [&](int n, const std::optional<Tensor<float>> &tensor) {
      return tensor ? &(views[n] = tensor->view()) : nullptr;
    };
    if (rms) {
      fovea_rms_norm_options options{};
      options.struct_size = sizeof options;
      options.epsilon = epsilon;
      options.flags = flags;
      if (weight_from_one) options.flags |= FOVEA_NORM_WEIGHT_FROM_ONE;
      options.weight = view(0, weight);
      options.residual = view(1, residual);
      options.sum = view(2, sum);
      options.inverse_deviation = view(3, inverse_deviation);
      return fovea_rms_norm(context, &x_view, &out, &options);
    }
    fovea_layer_norm_options options{};
    options.struct_size = sizeof options;
    options.epsilon = epsilon;
    options.flags = flags;
    options.weight = view(0, weight);
    options.residual = view(1, residual);
    options.sum = view(2, sum);
    options.inverse_deviation = view(3, inverse_deviation);
    options.bias = view(4, bias);
    options.mean = view(5, mean);
    return fovea_layer_norm(context, &x_view, &out, &options);
  }
  std::vector<float> run(const fovea_context *context) const {
    const Tensor<float> out = make_out();
    REQUIRE_OK(run(context, out.view()));
    CHECK(out.gaps_untouched());
    return out.dense();
  }

  reference::LayerNormInputs reference_inputs() const {
    reference::LayerNormInputs inputs;
    inputs.dim = dim();
    inputs.epsilon = epsilon == 0 && (flags & FOVEA_NORM_EPSILON_GIVEN) == 0 ? 1e-5 : static_cast<double>(epsilon);
    inputs.rms = rms;
    inputs.weight_from_one = weight_from_one;
    inputs.x = x.dense();
    if (residual) inputs.residual = residual->dense();
    if (weight) inputs.weight = weight->dense();
    if (bias) inputs.bias = bias->dense();
    return inputs;
  }
  void freeze() const {
    x.memory().freeze();
    for (const auto *tensor : {&residual, &weight, &bias}) {
      if (*tensor) (*tensor)->memory().freeze();
    }
  }
};

// What an element may be off by, in roundings: some of the normalised value and two of the row's typical one, whatever
// the row's mean is; two of the result; and, with a residual, those of x + residual, which the divisor magnifies.
inline std::vector<double> norm_bounds(const reference::LayerNormInputs &inputs, const std::vector<double> &truth) {
  std::vector<double> bounds(truth.size());
  const auto dim = static_cast<size_t>(inputs.dim);
  reference::LayerNormInputs plain = inputs;
  plain.weight.clear();
  plain.bias.clear();
  const std::vector<double> normalised = reference::layer_norm<double>(plain);
  for (size_t begin = 0; begin < truth.size(); begin += dim) {
    double sum_error = 0, mean = 0, variance = 0;
    std::vector<double> y(dim);
    for (size_t i = 0; i < dim; ++i) {
      y[i] = static_cast<double>(inputs.x[begin + i]);
      if (!inputs.residual.empty()) y[i] += static_cast<double>(inputs.residual[begin + i]);
      if (!inputs.residual.empty()) sum_error = std::max(sum_error, std::abs(y[i]));
      if (!inputs.rms) mean += y[i] / static_cast<double>(dim);
    }
    for (size_t i = 0; i < dim; ++i) variance += (y[i] - mean) * (y[i] - mean) / static_cast<double>(dim);
    const double magnified = sum_error / std::sqrt(variance + inputs.epsilon);
    const double typical = std::sqrt(variance / (variance + inputs.epsilon));
    for (size_t i = 0; i < dim; ++i) {
      const double value = normalised[begin + i];
      const double from = inputs.weight_from_one ? 1 : 0;
      const double weight = inputs.weight.empty() ? 1 : std::abs(static_cast<double>(inputs.weight[i]) + from);
      const double roundings = 8 * std::abs(value) + 2 * typical + 2 * magnified * (1 + std::abs(value));
      const double raised = from * std::abs(value);  // the rounding of 1 + weight
      bounds[begin + i] = kEpsilon * (roundings * weight + raised + 2 * std::abs(truth[begin + i])) + 0x1p-126;
    }
  }
  return bounds;
}

// Elements beyond their bounds, or NaN or infinite where the truth is not.
inline int64_t bad_elements(const std::vector<float> &out, const std::vector<double> &truth,
                            const std::vector<double> &bounds) {
  if (out.size() != truth.size()) return -1;
  int64_t bad = 0;
  for (size_t n = 0; n < out.size(); ++n) {
    const bool fits = std::isfinite(truth[n]) ? std::abs(static_cast<double>(out[n]) - truth[n]) <= bounds[n]
                                              : std::isnan(truth[n]) && std::isnan(out[n]);
    bad += fits ? 0 : 1;
  }
  return bad;
}

inline void check_norm(const NormProblem &problem) {
  const reference::LayerNormInputs inputs = problem.reference_inputs();
  const std::vector<double> truth = reference::layer_norm<double>(inputs), bounds = norm_bounds(inputs, truth);
  const std::vector<float> plain = reference::layer_norm<float>(inputs);
  const double floor = bounds.empty() ? 0 : *std::max_element(bounds.begin(), bounds.end());
  problem.freeze();
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> out = problem.run(context);
    CHECK_ACCURATE(out, truth, plain, floor);
    CHECK_EQ(bad_elements(out, truth, bounds), 0);
  });
}

inline Shape random_strides(const Shape &shape, Random &random) {
  std::vector<int> order;
  for (size_t axis = 0; axis < shape.size(); ++axis) order.push_back(static_cast<int>(axis));
  for (size_t axis = shape.size() - 1; axis > 1; --axis) {
    std::swap(order[axis - 1], order[static_cast<size_t>(random.integer(0, static_cast<int64_t>(axis) - 1))]);
  }
  Shape strides = permuted_strides(shape, order, random.integer(0, 5));
  if (shape.size() > 1 && random.chance(0.2)) strides[0] = -strides[0];
  return strides;
}

// Inputs may repeat along their leading axes.
inline Shape random_input_strides(const Shape &shape, Random &random) {
  Shape strides = random_strides(shape, random);
  if (shape.size() > 1 && random.chance(0.2)) strides[0] = 0;
  return strides;
}

inline NormProblem random_norm(uint64_t seed) {
  Random random(seed);
  Shape shape;
  const int64_t rank = random.integer(1, 6);
  for (int64_t axis = 0; axis + 1 < rank; ++axis) shape.push_back(random.integer(1, rank > 4 ? 2 : 4));
  if (rank > 1 && random.chance(0.03)) shape[0] = 0;
  shape.push_back(random.chance(0.5) ? random.integer(1, 40) : random.integer(1, 5000));
  NormProblem problem(shape, random_input_strides(shape, random));
  problem.out_strides = random_strides(shape, random);
  const float scale = random.pick({1.0f, 30.0f, 1e-3f}), mean = random.pick({0.0f, 0.0f, 1.0f, -1000.0f});
  problem.x.fill([&] { return scale * random.normal() + mean; });
  problem.epsilon = random.pick({0.0f, 1e-12f, 1e-6f, 0.5f});
  if (random.chance(0.5)) {
    problem.residual.emplace(shape, random_input_strides(shape, random));
    problem.residual->fill([&] { return scale * random.normal(); });
  }
  if (random.chance(0.6)) problem.weight.emplace(Shape{shape.back()}).fill_normal(random);
  if (random.chance(0.6)) problem.bias.emplace(Shape{shape.back()}).fill_normal(random);
  return problem;
}

// Two rows of a size, with everything.
inline NormProblem full_norm(int64_t dim, uint64_t seed, float mean = 0) {
  Random random(seed);
  NormProblem problem({2, dim});
  problem.x.fill([&] { return random.normal() + mean; });
  problem.add_parameters(random);
  if (seed % 2 == 0) problem.add_residual(random);
  return problem;
}

}  // namespace testing
