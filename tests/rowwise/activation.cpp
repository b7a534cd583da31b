// Activations alone: the bits that a linear layer gives, over all of the range; types, strides, in place, bad
// arguments.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "errors.hpp"
#include "reference.hpp"
#include "support/contexts.hpp"
#include "support/linear_layer.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

std::vector<float> activate(const fovea_context *context, int32_t kind, const Tensor<float> &x) {
  const Tensor<float> out(x.shape(), x.strides());
  const fovea_tensor from = x.view(), to = out.view();
  REQUIRE_OK(fovea_activation(context, kind, &from, &to));
  CHECK(out.gaps_untouched());
  return out.dense();
}

// The activation of each value: a layer of no inputs whose bias they are.
std::vector<float> by_a_layer(const fovea_context *context, int32_t kind, const std::vector<float> &values) {
  const auto count = static_cast<int64_t>(values.size());
  Layer layer;
  layer.x = Tensor<float>({1, 0});
  layer.weight = Tensor<float>({0, count});
  layer.bias = Tensor<float>({count});
  layer.bias.assign(values);
  layer.has_bias = true;
  layer.activation = kind;
  const Packed packed = pack(context, layer.weight);
  const Tensor<float> out = layer.make_out();
  REQUIRE_OK(layer.run(context, packed.get(), out));
  return out.dense();
}

}  // namespace

TEST_SUITE("activation") {
  TEST_CASE("floats all over the range: the bits of a linear layer") {
    std::vector<float> values = {kNan, kInfinity, -kInfinity, 0.0f};
    for (uint32_t sign : {0u, 0x80000000u}) {
      for (uint32_t bits = 1; bits < 0x7f800000; bits += 99991) values.push_back(std::bit_cast<float>(sign | bits));
    }
    for (float x = -14; x < 6; x += 0x1p-10f) values.push_back(x);
    Tensor<float> x({static_cast<int64_t>(values.size())});
    x.assign(values);
    for (int32_t kind : kActivations) {
      CAPTURE(kind);
      for_each_isa([&](const fovea_context *context) {
        CHECK(same_bits(activate(context, kind, x), by_a_layer(context, kind, values)));
      });
    }
  }

  TEST_CASE("every size up to 100 and strides against the formula, in place, in 16 bits") {
    for (int64_t size = 1; size <= 100; ++size) {
      CAPTURE(size);
      Random random(base_seed());
      const WithPlacement here(size % 2 == 0 ? Placement::kEnd : Placement::kMisaligned);
      Tensor<float> x({2, 3, size}, permuted_strides({2, 3, size}, {1, 0, 2}, size % 3));
      x.fill([&] { return 3 * random.normal(); });
      for (int32_t kind : kActivations) {
        CAPTURE(kind);
        const std::vector<float> dense = x.dense();
        for_each_isa([&](const fovea_context *context) {
          const std::vector<float> out = activate(context, kind, x);
          for (size_t i = 0; i < out.size(); ++i) {
            const double truth = reference::exact_activation(static_cast<reference::Activation>(kind), dense[i]);
            CHECK(std::abs(static_cast<double>(out[i]) - truth) <= 7 * 0x1p-23 * std::abs(truth));
          }
          Tensor<float> same(x.shape());
          same.assign(dense);
          const fovea_tensor view = same.view();
          REQUIRE_OK(fovea_activation(context, kind, &view, &view));
          CHECK(same_bits(same.dense(), out));
          for (const fovea_dtype from : {FOVEA_F16, FOVEA_BF16}) {
            for (const fovea_dtype to : {FOVEA_F16, FOVEA_BF16}) {
              const NarrowTensor half(x, from), result(same, to);
              Tensor<float> floats(x.shape());
              for_each_index(x.shape(), [&](const Shape &i) { floats.at(i) = widened(half.at(i), from); });
              const std::vector<float> rounded = activate(context, kind, floats);
              const fovea_tensor in = half.view(), put = result.view();
              REQUIRE_OK(fovea_activation(context, kind, &in, &put));
              size_t next = 0;
              int64_t wrong = 0;
              for_each_index(x.shape(),
                             [&](const Shape &i) { wrong += result.at(i) == narrowed(rounded[next++], to) ? 0 : 1; });
              CHECK_EQ(wrong, 0);
            }
          }
        });
      }
    }
  }

  TEST_CASE("errors") {
    Tensor<float> x({2, 3}), out({2, 3});
    x.fill([] { return 1.0f; });
    const fovea_tensor from = x.view(), to = out.view();
    for (int32_t kind : {-1, 5, INT32_MAX}) {
      check_refusal(fovea_activation(nullptr, kind, &from, &to), FOVEA_BAD_VALUE, {"activation is", "0 to 4"});
    }
    fovea_tensor other = to;
    other.shape[0] = 1;
    check_refusal(fovea_activation(nullptr, FOVEA_ACTIVATION_RELU, &from, &other), FOVEA_BAD_SHAPE, {"out.shape[0]"});
    other = from;
    other.data = x.data() + 1;
    check_refusal(fovea_activation(nullptr, FOVEA_ACTIVATION_RELU, &from, &other), FOVEA_OVERLAP, {"out", "x"});
    CHECK(out.untouched());
  }
}
