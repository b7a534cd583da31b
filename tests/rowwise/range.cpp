// Finite inputs, finite results: what is not attention at the ends of float32's range, by exact scaling as in
// attention/range.cpp; and the smallest weights of a softmax in bfloat16.
#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <optional>

#include "reference.hpp"
#include "support/contexts.hpp"
#include "support/linear_layer.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

float scaled(float x, int power) { return std::ldexp(x, power); }

Tensor<float> times(const Tensor<float> &tensor, int power) {
  std::vector<float> dense = tensor.dense();
  for (float &x : dense) x = scaled(x, power);
  Tensor<float> result(tensor.shape());
  result.assign(dense);
  return result;
}

// Multiples of 2^-8 from -1 to 1.
Tensor<float> &coarse(Tensor<float> &tensor, Random &random) {
  return tensor.fill([&] { return static_cast<float>(random.integer(-256, 256)) / 256.0f; });
}

struct Norm {
  const Tensor<float> &x;
  const Tensor<float> *residual, *weight, *bias;

  Norm(const Tensor<float> &its_x, const Tensor<float> *its_residual, const Tensor<float> *its_weight,
       const Tensor<float> *its_bias)
      : x(its_x), residual(its_residual), weight(its_weight), bias(its_bias) {}

  // x, residual and the root of epsilon times 2^power, all of `type` but the weight and the bias.
  std::vector<float> run(const fovea_context *context, int power, float epsilon, fovea_dtype type) const {
    const Tensor<float> its_x = times(x, power);
    const Tensor<float> its_residual = residual != nullptr ? times(*residual, power) : Tensor<float>(x.shape());
    const NarrowTensor narrow_x(its_x, type == FOVEA_F32 ? FOVEA_BF16 : type);
    const NarrowTensor narrow_residual(its_residual, type == FOVEA_F32 ? FOVEA_BF16 : type);
    Tensor<float> out(x.shape());
    const fovea_tensor x_view = type == FOVEA_F32 ? its_x.view() : narrow_x.view();
    const fovea_tensor residual_view = type == FOVEA_F32 ? its_residual.view() : narrow_residual.view();
    fovea_tensor weight_view{}, bias_view{};
    fovea_layer_norm_options options{};
    options.struct_size = sizeof options;
    options.epsilon = scaled(epsilon, 2 * power);
    if (residual != nullptr) options.residual = &residual_view;
    if (weight != nullptr) options.weight = &(weight_view = weight->view());
    if (bias != nullptr) options.bias = &(bias_view = bias->view());
    const fovea_tensor out_view = out.view();
    REQUIRE_OK(fovea_layer_norm(context, &x_view, &out_view, &options));
    return out.dense();
  }
};

void check_norm(const Norm &norm, fovea_dtype type) {
  for_each_isa([&](const fovea_context *context) {
    // Epsilon stays a float: it is small beside rows that grow, large beside those that shrink.
    const std::vector<float> grown = norm.run(context, 0, 0x1p-120f, type);
    for (int power : {20, 50, 62, 64, 80, 120, 123}) {
      CAPTURE(power);
      CHECK(same_bits(norm.run(context, power, 0x1p-120f, type), grown));
    }
    const std::vector<float> shrunk = norm.run(context, 0, 0x1p100f, type);
    for (int power : {-20, -44, -46, -60, -90, -120}) {
      CAPTURE(power);
      CHECK(same_bits(norm.run(context, power, 0x1p100f, type), shrunk));
    }
    const std::vector<float> less = norm.run(context, 0, 0x1p-20f, type);
    for (int power : {-20, -35, -44, -46, -60}) {
      CAPTURE(power);
      CHECK(same_bits(norm.run(context, power, 0x1p-20f, type), less));
    }
  });
}

}  // namespace

TEST_SUITE("range") {
  TEST_CASE("layer norm: rows times a power of two, epsilon by its square") {
    for (int64_t dim : {1, 2, 7, 64, 700, 2048, 2500, 5000}) {
      CAPTURE(dim);
      Random random(base_seed());
      Tensor<float> x({3, dim}), residual({3, dim}), weight({dim}), bias({dim});
      coarse(x, random);
      coarse(residual, random);
      weight.fill_normal(random);
      bias.fill_normal(random);
      for (fovea_dtype type : {FOVEA_F32, FOVEA_BF16}) {
        CAPTURE(type);
        check_norm({x, nullptr, nullptr, nullptr}, type);
        check_norm({x, &residual, &weight, &bias}, type);
        check_norm({x, nullptr, &weight, nullptr}, type);
        check_norm({x, &residual, nullptr, &bias}, type);
      }
    }
  }

  TEST_CASE("layer norm: a sum with the residual beyond float32, and rows that are all alike") {
    for (int64_t dim : {5, 3000}) {
      Random random(base_seed());
      Tensor<float> x({2, dim}), out({2, dim});
      for (float size : {FLT_MAX, 0x1p127f}) {
        for (bool alike : {false, true}) {
          x.fill([&] { return alike ? size : size * random.uniform(-1, 1); });
          std::vector<float> doubled = x.dense();
          for (float &value : doubled) value /= size;
          reference::LayerNormInputs inputs;
          inputs.dim = dim;
          inputs.epsilon = 0x1p-100;
          inputs.x = doubled;
          const std::vector<double> truth = reference::layer_norm<double>(inputs);
          fovea_layer_norm_options options{};
          options.struct_size = sizeof options;
          const fovea_tensor x_view = x.view(), out_view = out.view();
          options.residual = &x_view;
          for_each_isa([&](const fovea_context *context) {
            REQUIRE_OK(fovea_layer_norm(context, &x_view, &out_view, &options));
            const std::vector<float> dense = out.dense();
            for (size_t i = 0; i < dense.size(); ++i) CHECK(std::fabs(dense[i] - truth[i]) < 2e-6);
          });
        }
      }
    }
  }

  TEST_CASE("layer norm of bfloat16: results of the same type follow to its last place") {
    for (int64_t dim : {7, 700, 5000}) {
      Random random(base_seed());
      Tensor<float> x({3, dim}), out({3, dim});
      coarse(x, random);
      for_each_isa([&](const fovea_context *context) {
        std::vector<float> base;
        for (int power : {0, 60, 64, 100, 126}) {
          CAPTURE(power);
          const NarrowTensor from(times(x, power), FOVEA_BF16);
          NarrowTensor to(out, FOVEA_BF16);
          const fovea_tensor x_view = from.view(), out_view = to.view();
          fovea_layer_norm_options options{};
          options.struct_size = sizeof options;
          options.epsilon = 0x1p-100f;
          REQUIRE_OK(fovea_layer_norm(context, &x_view, &out_view, &options));
          size_t n = 0;
          for_each_index(out.shape(), [&](const Shape &at) {
            const float value = widened(to.at(at), FOVEA_BF16);
            if (power == 0) base.push_back(value);
            CHECK(std::fabs(value - base[n]) <= std::fabs(base[n]) * 0x1p-7f);
            ++n;
          });
        }
      });
    }
  }

  TEST_CASE("masked softmax of the largest numbers there are") {
    for (int64_t key_len : {3, 9, 40, 700, 5000}) {
      Tensor<float> x({1, key_len}), out({1, key_len});
      for (float largest : {FLT_MAX, 1e30f, -1e30f, 0.0f}) {
        x.fill([n = 0, largest]() mutable { return n++ % 3 == 0 ? largest : -FLT_MAX; });
        const fovea_tensor x_view = x.view(), out_view = out.view();
        const auto share = 1.0 / static_cast<double>((key_len + 2) / 3);
        for_each_isa([&](const fovea_context *context) {
          REQUIRE_OK(fovea_masked_softmax(context, &x_view, nullptr, &out_view, nullptr));
          for (int64_t j = 0; j < key_len; ++j) CHECK(std::fabs(out(0, j) - (j % 3 == 0 ? share : 0)) < share * 1e-6);
        });
      }
    }
  }

  TEST_CASE("masked softmax of bfloat16: the smallest weights there are, to 0.53 of the last place") {
    for (int64_t key_len : {2, 9, 20, 33, 64, 700, 9000}) {
      CAPTURE(key_len);
      // Rows of one large number; the others lie from 80 to 96 below it, so that the sum is 1.
      const int64_t rows = key_len == 2 ? 300 : 40;
      Tensor<float> x({rows, key_len}), zeros({rows, key_len});
      x.fill([&, n = int64_t{0}]() mutable {
        const int64_t row = n / key_len, key = n++ % key_len;
        return key == key_len / 2 ? 0.0f : -80.0f - static_cast<float>((row * 7 + key * 5) % 256) / 16.0f;
      });
      zeros.fill([] { return 0.0f; });
      const NarrowTensor from(x, FOVEA_BF16);
      for_each_isa([&](const fovea_context *context) {
        NarrowTensor to(zeros, FOVEA_BF16);
        const fovea_tensor x_view = from.view(), out_view = to.view();
        REQUIRE_OK(fovea_masked_softmax(context, &x_view, nullptr, &out_view, nullptr));
        double worst = 0;
        for_each_index(x.shape(), [&](const Shape &at) {
          const double truth = std::exp(static_cast<double>(rounded_to(x.at(at), FOVEA_BF16)));
          const double place = std::ldexp(1.0, std::max(std::ilogb(truth), -126) - 7);
          worst = std::max(worst, std::fabs(widened(to.at(at), FOVEA_BF16) - truth) / place);
        });
        CHECK(worst <= 0.53);
      });
    }
  }

  TEST_CASE("masked softmax of floats: no weight below 2^-125.5 of the largest") {
    for (int64_t key_len : {2, 9, 40, 700}) {
      Tensor<float> x({1, key_len}), out({1, key_len});
      x.fill([n = 0]() mutable { return n++ == 0 ? 3.0f : n % 2 == 0 ? -84.1f : -83.9f; });
      const fovea_tensor x_view = x.view(), out_view = out.view();
      for_each_isa([&](const fovea_context *context) {
        REQUIRE_OK(fovea_masked_softmax(context, &x_view, nullptr, &out_view, nullptr));
        for (int64_t j = 1; j < key_len; ++j) CHECK((out(0, j) == 0) == (j % 2 == 1));
      });
    }
  }

  TEST_CASE("products: one side times a power of two, the other by its inverse") {
    for (int64_t rows : {1, 5, 40}) {
      Random random(base_seed());
      Tensor<float> a({rows, 37}), b({37, 21}), base({rows, 21}), out({rows, 21});
      coarse(a, random);
      coarse(b, random);
      for_each_isa([&](const fovea_context *context) {
        for (int power : {0, -118, -60, 60, 118}) {
          CAPTURE(power);
          const Tensor<float> its_a = times(a, power), its_b = times(b, -power);
          const fovea_tensor a_view = its_a.view(), b_view = its_b.view(), out_view = out.view();
          REQUIRE_OK(fovea_matmul(context, &a_view, &b_view, &out_view));
          if (power == 0) base.assign(out.dense());
          CHECK(same_bits(out, base));
        }
      });
    }
  }

  TEST_CASE("activations of every size of number") {
    for (int32_t activation : kActivations) {
      CAPTURE(activation);
      constexpr int64_t count = 554;
      Tensor<float> x({count, 1}), weight({1, 1}), out({count, 1});
      weight.fill([] { return 1.0f; });
      x.fill([n = 0]() mutable {
        const float size = std::ldexp(1.4375f, n / 2 - 149);
        return n++ % 2 == 0 ? size : -size;
      });
      for_each_isa([&](const fovea_context *context) {
        const Packed packed = pack(context, weight);
        fovea_linear_options options{};
        options.struct_size = sizeof options;
        options.activation = activation;
        const fovea_tensor x_view = x.view(), out_view = out.view();
        REQUIRE_OK(fovea_linear(context, &x_view, packed.get(), &out_view, &options));
        for (int64_t i = 0; i < count; ++i) {
          CAPTURE(x(i, 0));
          const double truth = reference::exact_activation(static_cast<reference::Activation>(activation), x(i, 0));
          const double tail = x(i, 0) < 0 ? 4e-7 * std::min(1.0, -static_cast<double>(x(i, 0))) : 0.0;
          CHECK(std::fabs(out(i, 0) - truth) <= 2e-6 * std::fabs(truth) + tail + 0x1p-149);
        }
      });
    }
  }

  TEST_CASE("rotary: rows times a power of two") {
    for (int64_t dim : {2, 10, 64}) {
      Random random(base_seed());
      Tensor<float> x({9, dim}), base({9, dim}), out({9, dim});
      coarse(x, random);
      for_each_isa([&](const fovea_context *context) {
        for (int power : {0, -60, 60, 126}) {
          CAPTURE(power);
          const Tensor<float> its_x = times(x, power);
          const fovea_tensor x_view = its_x.view(), out_view = out.view();
          REQUIRE_OK(fovea_rotary(context, &x_view, &out_view, nullptr));
          if (power == 0) base.assign(out.dense());
          CHECK(same_bits(out, times(base, power)));
        }
      });
    }
  }
}
