// Gradients of activations and of softmax against float64.
#include <bit>

#include "support/judged_gradients.hpp"

using namespace testing;

namespace {

constexpr int32_t kAllActivations[] = {FOVEA_ACTIVATION_NONE, FOVEA_ACTIVATION_RELU, FOVEA_ACTIVATION_GELU,
                                       FOVEA_ACTIVATION_GELU_TANH, FOVEA_ACTIVATION_SILU};

std::vector<float> derivatives(const fovea_context *context, int32_t kind, const std::vector<float> &values) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  TypedTensor x(shape), grad(shape);
  size_t next = 0;
  x.fill([&] { return values[next++]; });
  grad.fill([] { return 1.0f; });
  const fovea_tensor x_view = x.view(), grad_view = grad.view();
  REQUIRE_OK(fovea_activation_backward(context, kind, &x_view, &grad_view, &grad_view));
  return grad.dense();
}

// The axes of a softmax as three.
struct Axes {
  int64_t outer = 1, key_len = 1, inner = 1;

  Axes(const Shape &shape, size_t axis) : key_len(shape[axis]) {
    for (size_t n = 0; n < axis; ++n) outer *= shape[n];
    for (size_t n = axis + 1; n < shape.size(); ++n) inner *= shape[n];
  }
};

// What softmax gives, in this type.
TypedTensor softmax_of(const Shape &shape, size_t axis, bool log, fovea_dtype dtype, Random &random) {
  std::vector<float> x;
  for (int64_t n = 0; n < element_count(shape); ++n) x.push_back(2 * random.normal());
  const Axes axes(shape, axis);
  const std::vector<double> out = reference::softmax<double>(x, axes.outer, axes.key_len, axes.inner, log);
  TypedTensor tensor(shape, dtype, some_strides(shape, random));
  size_t next = 0;
  tensor.fill([&] { return static_cast<float>(out[next++]); });
  return tensor;
}

}  // namespace

TEST_SUITE("layer gradients") {
  TEST_CASE("activation gradients: floats all over the range") {
    std::vector<float> values;
    for (uint32_t sign : {0u, 0x80000000u}) {
      for (uint32_t bits = 0; bits < 0x7f800000; bits += 19973) values.push_back(std::bit_cast<float>(sign | bits));
    }
    for (float x = -14; x < 14; x += 0x1p-12f) values.push_back(x);
    for (const int32_t kind : kAllActivations) {
      CAPTURE(kind);
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> found = derivatives(context, kind, values);
        double worst = 0;
        for (size_t n = 0; n < values.size(); ++n) {
          const double truth =
              reference::activation_derivative<double>(static_cast<reference::Activation>(kind), values[n]);
          worst = std::max(worst, std::abs(found[n] - truth));
        }
        CHECK(worst <= (kind <= FOVEA_ACTIVATION_RELU ? 0.0 : 5e-7));
      });
    }
  }

  TEST_CASE("activation gradients: NaN, infinities and zeros") {
    const std::vector<float> values = {kNan, kInfinity, -kInfinity, 0.0f, -0.0f};
    for (const int32_t kind : kAllActivations) {
      CAPTURE(kind);
      const bool none = kind == FOVEA_ACTIVATION_NONE;
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> found = derivatives(context, kind, values);
        CHECK(std::isnan(found[0]) == !none);
        CHECK(found[1] == 1.0f);
        CHECK(found[2] == (none ? 1.0f : 0.0f));
        const float at_zero = none ? 1.0f : kind == FOVEA_ACTIVATION_RELU ? 0.0f : 0.5f;
        CHECK(found[3] == at_zero);
        CHECK(found[4] == at_zero);
      });
    }
  }

  TEST_CASE("activation gradients: random shapes, strides and types") {
    for (int64_t n = 0; n < case_count(100); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement here(n % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      Shape shape;
      for (int64_t rank = random.integer(1, 5); rank > 1; --rank) shape.push_back(random.integer(0, 5));
      shape.push_back(random.integer(1, 2500));
      const TypedTensor x = normal_tensor(shape, random), grad = normal_tensor(shape, random);
      const auto kind = static_cast<int32_t>(random.integer(0, 4));
      const std::vector<float> x_values = x.dense(), grad_values = grad.dense();
      reference::Gradient<double> truth;
      reference::Gradient<float> plain;
      for (size_t i = 0; i < x_values.size(); ++i) {
        const auto activation = static_cast<reference::Activation>(kind);
        truth.value.push_back(grad_values[i] * reference::activation_derivative<double>(activation, x_values[i]));
        truth.magnitude.push_back(std::abs(grad_values[i]));
        plain.value.push_back(grad_values[i] * reference::activation_derivative<float>(activation, x_values[i]));
      }
      const TypedTensor layout = output_tensor(shape, random);
      for_each_isa([&](const fovea_context *context) {
        const TypedTensor grad_x = like(layout);
        const fovea_tensor x_view = x.view(), grad_view = grad.view(), out = grad_x.view();
        REQUIRE_OK(fovea_activation_backward(context, kind, &x_view, &grad_view, &out));
        judge_gradient("x", grad_x, truth, plain, 16);
      });
    }
  }

  TEST_CASE("softmax gradients: over every axis, its logarithm, types, strides, in place") {
    for (int64_t n = 0; n < case_count(300); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement here(n % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      Shape shape;
      for (int64_t rank = random.integer(1, 5); rank > 0; --rank) shape.push_back(random.integer(1, 7));
      const auto axis = static_cast<size_t>(random.integer(0, static_cast<int64_t>(shape.size()) - 1));
      if (random.chance(0.3)) shape[axis] = random.integer(1, 1500);
      if (random.chance(0.3)) shape.back() = random.integer(1, 600);
      for (size_t other = 0; element_count(shape) > 1 << 17; ++other) {  // two long axes would make millions
        if (other != axis) shape[other] = 1;
      }
      const bool log = random.chance(0.4), in_place = random.chance(0.2);
      const TypedTensor out = softmax_of(shape, axis, log, random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}), random);
      const TypedTensor grad = normal_tensor(shape, random), layout = output_tensor(shape, random);
      const Axes axes(shape, axis);
      const auto truth =
          reference::softmax_gradient<double>(out.dense(), grad.dense(), axes.outer, axes.key_len, axes.inner, log, {});
      const auto plain =
          reference::softmax_gradient<float>(out.dense(), grad.dense(), axes.outer, axes.key_len, axes.inner, log, {});
      const auto given = static_cast<int32_t>(axis) - (random.chance(0.5) ? static_cast<int32_t>(shape.size()) : 0);
      for_each_isa([&](const fovea_context *context) {
        const TypedTensor grad_x = in_place ? grad : like(layout);
        const fovea_tensor out_view = out.view(), to = grad_x.view(), from = in_place ? to : grad.view();
        REQUIRE_OK(log ? fovea_log_softmax_backward(context, &out_view, given, &from, &to)
                       : fovea_softmax_backward(context, &out_view, given, &from, &to));
        judge_gradient("x", grad_x, truth, plain, 16);
      });
    }
  }

  TEST_CASE("softmax gradients: rows of some keys, NaN behind them") {
    for (int64_t n = 0; n < case_count(100); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const int64_t batch = random.integer(1, 3), queries = random.integer(1, 5), keys = random.integer(1, 90);
      const Shape shape = {batch, queries, keys};
      const bool by_query = random.chance(0.5);
      Tensor<int64_t> lens(by_query ? Shape{batch, queries} : Shape{batch});
      lens.fill([&] { return random.integer(0, keys); });
      const std::vector<int64_t> given = lens.dense();
      std::vector<int64_t> valid;
      for (int64_t row = 0; row < batch * queries; ++row) {
        valid.push_back(given[static_cast<size_t>(by_query ? row : row / queries)]);
      }
      TypedTensor out = softmax_of(shape, 2, false, FOVEA_F32, random), grad = normal_tensor(shape, random);
      for_each_index(shape, [&](const Shape &at) {
        if (at[2] < valid[static_cast<size_t>(at[0] * queries + at[1])]) return;
        out.set(at, random.chance(0.5) ? 0.0f : kNan);
        grad.set(at, kNan);
      });
      const auto truth =
          reference::softmax_gradient<double>(out.dense(), grad.dense(), batch * queries, keys, 1, false, valid);
      const auto plain =
          reference::softmax_gradient<float>(out.dense(), grad.dense(), batch * queries, keys, 1, false, valid);
      const TypedTensor layout = output_tensor(shape, random);
      for_each_isa([&](const fovea_context *context) {
        const TypedTensor grad_x = like(layout);
        const fovea_tensor out_view = out.view(), grad_view = grad.view(), to = grad_x.view(), lens_view = lens.view();
        REQUIRE_OK(fovea_masked_softmax_backward(context, &out_view, &lens_view, &grad_view, &to));
        judge_gradient("x", grad_x, truth, plain, 16);
      });
    }
  }

  TEST_CASE("positional encoding: dropout alone is what goes back") {
    Random random(base_seed());
    for (const Shape &shape : {Shape{3, 7, 33}, Shape{5, 8}}) {
      const TypedTensor x = normal_tensor(shape, random);
      for (const float dropout : {0.0f, 0.4f}) {
        for_each_isa([&](const fovea_context *context) {
          const TypedTensor forward(shape), alone(shape);
          fovea_positional_encoding_options options = {};
          options.struct_size = sizeof options;
          options.dropout = dropout;
          options.dropout_seed = 7;
          options.offset = 3;
          const fovea_tensor from = x.view(), forward_view = forward.view(), to = alone.view();
          REQUIRE_OK(fovea_add_positional_encoding(context, &from, &forward_view, &options));
          options.flags = FOVEA_ENCODING_DROPOUT_ALONE;
          REQUIRE_OK(fovea_add_positional_encoding(context, &from, &to, &options));
          const std::vector<float> given = x.dense(), dropped = forward.dense(), found = alone.dense();
          const float factor = 1.0f / (1.0f - dropout);
          for (size_t n = 0; n < given.size(); ++n) {
            if (dropped[n] == 0) {
              CHECK(found[n] == 0);
            } else {
              CHECK(found[n] == doctest::Approx(given[n] * factor).epsilon(1e-6));
            }
          }
        });
      }
    }
  }
}
