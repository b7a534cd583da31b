// FOVEA_PRECISION_INT8 of products: the bits that the formula of fovea.h gives in whole numbers, on every set; how far
// that is from the product of the numbers themselves; and every size, type, stride and cut.
#include <doctest/doctest.h>

#include <cmath>

#include "errors.hpp"
#include "support/linear_layer.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

constexpr float kLeast = 0x1p-100f;
constexpr int64_t kGroup = 64;

// Some numbers of a row of a, or of a column of b, as whole numbers up to `most`, and the largest of them.
struct Rounded {
  std::vector<int64_t> whole;
  float largest = 0;

  Rounded(const std::vector<float> &from, int64_t first, int64_t step, int64_t count, float most) {
    bool finite = true;
    for (int64_t i = 0; i < count; ++i) {
      const float x = from[static_cast<size_t>(first + i * step)];
      finite = finite && std::isfinite(x);
      largest = std::max(largest, std::abs(x));
    }
    largest = finite ? std::max(largest, kLeast) : kNan;
    const float inverse = most / largest;
    const auto limit = static_cast<int64_t>(most);
    for (int64_t i = 0; i < count; ++i) {
      const float x = from[static_cast<size_t>(first + i * step)];
      whole.push_back(finite ? std::clamp<int64_t>(std::lrint(x * inverse), -limit, limit) : 0);
    }
  }
};

Rounded row_of(const reference::LinearInputs &in, int64_t m) { return {in.x, m * in.depth, 1, in.depth, 32767}; }

// A group of 64 rows of a column of b.
Rounded group_of(const reference::LinearInputs &in, int64_t n, int64_t k) {
  return {in.weight, k * in.columns + n, in.columns, std::min(kGroup, in.depth - k), 127};
}

// x [M,K] times a weight [K,N] as fovea.h says; 24 groups are added up before they are added to those before.
std::vector<float> formula(const reference::LinearInputs &in) {
  constexpr int64_t block = 24 * kGroup;
  std::vector<std::vector<Rounded>> columns(static_cast<size_t>(in.columns));
  for (int64_t n = 0; n < in.columns; ++n) {
    for (int64_t k = 0; k < in.depth; k += kGroup) columns[static_cast<size_t>(n)].push_back(group_of(in, n, k));
  }
  std::vector<float> out;
  for (int64_t m = 0; m < in.rows; ++m) {
    const Rounded row = row_of(in, m);
    for (const std::vector<Rounded> &column : columns) {
      float all = 0, some = 0;
      for (int64_t k = 0; k < in.depth; k += kGroup) {
        const Rounded &group = column[static_cast<size_t>(k / kGroup)];
        int64_t sum = 0;
        for (size_t i = 0; i < group.whole.size(); ++i) sum += row.whole[static_cast<size_t>(k) + i] * group.whole[i];
        const float scaled = static_cast<float>(sum) * (group.largest / (127.0f * 32767.0f));
        some = k % block == 0 ? scaled : some + scaled;
        if (k + kGroup < in.depth && (k + kGroup) % block != 0) continue;
        all = k < block ? some : all + some;
      }
      out.push_back(all * row.largest);
    }
  }
  return out;
}

Packed pack_at(const fovea_context *context, const fovea_tensor &weight, bool out_in) {
  return pack_view(context, weight, out_in, FOVEA_PRECISION_INT8);
}

std::vector<float> run(const fovea_context *context, const Layer &layer, const fovea_tensor &x, const Packed &packed) {
  const Tensor<float> out = layer.make_out();
  const fovea_tensor view = out.view();
  REQUIRE_OK(fovea_linear(context, &x, packed.get(), &view, nullptr));
  CHECK(out.gaps_untouched());
  return out.dense();
}

std::vector<float> run(const fovea_context *context, const Layer &layer) {
  return run(context, layer, layer.x.view(), pack_at(context, layer.weight.view(), layer.out_in));
}

void check_formula(const Layer &layer) {
  for (const Tensor<float> *input : {&layer.x, &layer.weight}) input->memory().freeze();
  CAPTURE(layer.x.shape());
  CAPTURE(layer.columns());
  CAPTURE(layer.out_in);
  const std::vector<float> expected = formula(inputs_of(layer));
  for_each_isa([&](const fovea_context *context) { CHECK(same_but_nan(run(context, layer), expected)); });
}

}  // namespace

TEST_SUITE("products of 8 bits") {
  TEST_CASE("by hand") {
    Tensor<float> x({2, 2}), weight({3, 2});
    x.assign({127, 1, 1, -0.5f});
    weight.assign({1, 0, 0.5f, -1, 254, 126});
    Layer layer;
    layer.x = std::move(x);
    layer.weight = std::move(weight);
    layer.out_in = true;
    // Columns as they are rounded: (127, 0); (64, -127), a half to even; (127, 63).
    const float a = 64.0f / 127, b = 254.0f / 127 * 63;
    const std::vector<float> expected = {127, 127 * a - 1, 127 * 254 + b, 1, a + 0.5f, 254 - 0.5f * b};
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> got = run(context, layer);
      for (size_t i = 0; i < expected.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(3e-5));
    });
    check_formula(layer);
  }

  TEST_CASE("sizes around the edges of tiles, at both ends of a page") {
    Random random(base_seed());
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t size : {0,  1,  2,  3,  4,  5,  6,  7,  8,  11, 12, 13, 15, 16, 17,  23,  29,  31, 32,
                           33, 47, 48, 49, 61, 63, 64, 65, 79, 80, 81, 95, 96, 97, 100, 127, 128, 129}) {
        check_formula(plain_layer(random, {size, 19}, 23));
        check_formula(plain_layer(random, {17, size}, 37));
        check_formula(plain_layer(random, {1, size}, 70));
        check_formula(plain_layer(random, {5, 19}, size));
        check_formula(plain_layer(random, {1, 40}, size));
      }
    }
  }

  TEST_CASE("several blocks of k, rows in several pieces, rows that are copied before") {
    Random random(base_seed());
    for (int64_t depth : {63, 64, 65, 127, 128, 129, 511, 512, 513, 1535, 1536, 1537, 3071, 3072, 3073, 7000}) {
      for (int64_t rows : {1, 3, 14}) check_formula(plain_layer(random, {rows, depth}, 70));
    }
    check_formula(plain_layer(random, {300, 800}, 90));
    check_formula(plain_layer(random, {3, 61, 300}, 33));
  }

  TEST_CASE("the largest sums") {
    Random random(base_seed());
    Layer layer = plain_layer(random, {2, 5000}, 3);
    for (Tensor<float> *ones : {&layer.x, &layer.weight}) ones->fill([] { return -1.0f; });
    check_formula(layer);
    for_each_isa([&](const fovea_context *context) {
      for (const float sum : run(context, layer)) CHECK(sum == doctest::Approx(5000).epsilon(1e-6));
    });
  }

  TEST_CASE("a factor is off by no more than fovea.h says") {
    Random random(base_seed());
    for (const auto &sizes : {std::array<int64_t, 3>{40, 1, 80}, {7, 64, 130}, {40, 1000, 70}}) {
      const Layer layer = plain_layer(random, {sizes[0], sizes[1]}, sizes[2]);
      const reference::LinearInputs in = inputs_of(layer);
      const auto truth = reference::linear<double>(in);
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> out = run(context, layer);
        double worst = 0;
        for (int64_t m = 0; m < in.rows; ++m) {
          const double of_row = 0.503 / 32767 * row_of(in, m).largest;
          for (int64_t n = 0; n < in.columns; ++n) {
            double allowed = 1e-30, of_column = 0, magnitude = 0;
            for (int64_t k = 0; k < in.depth; ++k) {
              if (k % kGroup == 0) of_column = 0.5001 / 127 * group_of(in, n, k).largest;
              const double a = std::abs(in.x[m * in.depth + k]), b = std::abs(in.weight[k * in.columns + n]);
              allowed += of_column * a + of_row * b + of_row * of_column;
              magnitude += a * b;
            }
            allowed += kEpsilon * static_cast<double>(4 + in.depth / kGroup) * magnitude;  // as float32
            const auto at = static_cast<size_t>(m * in.columns + n);
            worst = std::max(worst, std::abs(static_cast<double>(out[at]) - truth.out[at]) / allowed);
          }
        }
        CHECK(worst <= 1);
      });
    }
  }

  TEST_CASE("NaN, infinity, zeros, the largest numbers and the smallest") {
    Random random(base_seed());
    Layer layer = plain_layer(random, {20, 31}, 40);
    layer.x(7, 3) = kNan;
    layer.x(9, 30) = kInfinity;
    layer.x(11, 2) = 0x1.fffffep127f;
    layer.x(15, 1) = -0x1.fffffep127f;
    for (int64_t k = 0; k < 31; ++k) {
      layer.x(12, k) = 0;
      layer.x(13, k) = static_cast<float>(k) * 0x1p-149f;
      layer.x(14, k) *= 0x1p-103f;
    }
    layer.weight(3, 5) = -kInfinity;
    layer.weight(4, 6) = 0x1p127f;
    layer.weight(5, 7) = kNan;
    for (int64_t k = 0; k < 31; ++k) (layer.out_in ? layer.weight(9, k) : layer.weight(k, 9)) = 0x1p-140f;
    check_formula(layer);
    // A row of zeros gives zeros, but where a column is not finite.
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> out = run(context, layer);
      int64_t zeros = 0, nans = 0;
      for (int64_t n = 0; n < 40; ++n) {
        zeros += out[static_cast<size_t>(12 * 40 + n)] == 0;
        nans += std::isnan(out[static_cast<size_t>(12 * 40 + n)]);
      }
      CHECK_EQ(nans, 2);
      CHECK_EQ(zeros, 38);
    });
  }

  TEST_CASE("strides, and every type of x, weight and out") {
    Random random(base_seed());
    for (int64_t n = 0; n < case_count(60); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random own(seed);
      const WithPlacement placement(own.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const Shape shape = {own.integer(1, 3), own.integer(1, 40), own.integer(1, 1200)};
      Layer layer = plain_layer(own, shape, own.integer(1, 90));
      layer.x = normal(
          own, shape,
          permuted_strides(shape, own.pick({std::vector<int>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}}), own.integer(0, 2)));
      const Shape weight = layer.weight.shape();
      layer.weight =
          normal(own, weight, own.pick({Shape{1, weight[0] + 3}, Shape{2 * weight[1], 2}, Shape{weight[1] + 1, 1}}));
      check_formula(layer);
      const fovea_dtype x_type = own.pick({FOVEA_F16, FOVEA_BF16}), weight_type = own.pick({FOVEA_F16, FOVEA_BF16});
      const NarrowTensor x(layer.x, x_type), narrow_weight(layer.weight, weight_type);
      reference::LinearInputs inputs = inputs_of(layer);
      for (float &value : inputs.x) value = rounded_to(value, x_type);
      for (float &value : inputs.weight) value = rounded_to(value, weight_type);
      const std::vector<float> expected = formula(inputs);
      for_each_isa([&](const fovea_context *context) {
        const Packed packed = pack_at(context, narrow_weight.view(), layer.out_in);
        CHECK(same_but_nan(run(context, layer, x.view(), packed), expected));
      });
    }
  }

  TEST_CASE("bias, activation, multiplier and residual take what the product gave") {
    Random random(base_seed());
    for (int64_t n = 0; n < case_count(60); ++n) {
      Layer layer = make_layer(random, {random.integer(1, 20), random.integer(1, 300)}, random.integer(1, 100));
      const std::vector<float> bias = layer.bias.dense(), multiplier = layer.multiplier.dense(),
                               residual = layer.residual.dense();
      for_each_isa([&](const fovea_context *context) {
        const Packed packed = pack_at(context, layer.weight.view(), layer.out_in);
        const std::vector<float> product = run(context, layer, layer.x.view(), packed);
        const Tensor<float> out = layer.make_out();
        REQUIRE_OK(layer.run(context, packed.get(), out));
        const std::vector<float> got = out.dense();
        double worst = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const float sum = product[i] + (layer.has_bias ? bias[i % bias.size()] : 0.0f);
          double value = reference::exact_activation(static_cast<reference::Activation>(layer.activation), sum);
          if (layer.has_multiplier) value *= multiplier[i];
          const double magnitude = std::abs(value);
          if (layer.has_residual) value += residual[i];
          const double allowed = 12 * kEpsilon * (magnitude + std::abs(value) + 2 * std::abs(product[i])) *
                                     (layer.has_multiplier ? std::max(1.0f, std::abs(multiplier[i])) : 1.0f) +
                                 1e-30;
          worst = std::max(worst, std::abs(got[i] - value) / allowed);
        }
        CHECK(worst <= 1);
      });
    }
  }

  TEST_CASE("the same bits on 1 to 8 threads, and for each row alone") {
    Random random(base_seed());
    const Layer layer = plain_layer(random, {130, 801}, 300);
    const std::vector<float> expected = formula(inputs_of(layer));
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      for (int threads = 1; threads <= 8; ++threads)
        CHECK(same_bits(run(shared_context(isa, threads), layer), expected));
      const Packed packed = pack_at(shared_context(isa), layer.weight.view(), layer.out_in);
      const Tensor<float> out = layer.make_out();
      for (int64_t row = 0; row < 130; ++row) {
        fovea_tensor one = layer.x.view(), to = out.view();
        one.data = static_cast<float *>(one.data) + row * one.strides[0];
        to.data = static_cast<float *>(to.data) + row * to.strides[0];
        one.shape[0] = to.shape[0] = 1;
        REQUIRE_OK(fovea_linear(shared_context(isa), &one, packed.get(), &to, nullptr));
      }
      CHECK(same_bits(out.dense(), expected));
    }
  }

  TEST_CASE("matmul in a context of 8 bits, packed before or on the way; a call's precision changes nothing") {
    Random random(base_seed());
    for (int64_t n = 0; n < case_count(30); ++n) {
      const int64_t batch = random.integer(1, 3), rows = random.integer(1, 40), depth = random.integer(1, 500),
                    columns = random.integer(1, 90);
      const bool shared = random.chance(0.5);
      const Tensor<float> a = normal(random, {batch, rows, depth}),
                          b = normal(random, shared ? Shape{depth, columns} : Shape{batch, depth, columns});
      std::vector<float> expected;
      const std::vector<float> all_a = a.dense(), all_b = b.dense();
      for (int64_t i = 0; i < batch; ++i) {
        const auto part = [](const std::vector<float> &from, int64_t index, int64_t size) {
          return std::vector<float>(from.begin() + index * size, from.begin() + (index + 1) * size);
        };
        reference::LinearInputs inputs = {};
        inputs.rows = rows, inputs.depth = depth, inputs.columns = columns;
        inputs.x = part(all_a, i, rows * depth);
        inputs.weight = part(all_b, shared ? 0 : i, depth * columns);
        const std::vector<float> some = formula(inputs);
        expected.insert(expected.end(), some.begin(), some.end());
      }
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const OwnContext bytes = make_context(isa, FOVEA_PRECISION_INT8);
        const Tensor<float> out({batch, rows, columns});
        const fovea_tensor x = a.view(), y = b.view(), view = out.view();
        REQUIRE_OK(fovea_matmul(bytes.get(), &x, &y, &view));
        CHECK(same_bits(out.dense(), expected));
        if (!shared) continue;
        fovea_packed_matrix *made = nullptr;
        REQUIRE_OK(fovea_matmul_pack(bytes.get(), &y, nullptr, &made));
        const Packed packed(made);
        const Tensor<float> again({batch, rows, columns});
        const fovea_tensor again_view = again.view();
        REQUIRE_OK(fovea_matmul_packed(shared_context(isa), &x, packed.get(), &again_view));
        CHECK(same_bits(again.dense(), expected));
        fovea_linear_options options{};
        options.struct_size = sizeof options;
        options.precision = FOVEA_PRECISION_HIGHEST;
        REQUIRE_OK(fovea_linear(shared_context(isa), &x, packed.get(), &again_view, &options));
        CHECK(same_bits(again.dense(), expected));
      }
    }
  }

  TEST_CASE("a packed matrix takes 17 of 64 bytes") {
    Random random(base_seed());
    const Tensor<float> weight = normal(random, {512, 768});
    for_each_isa([&](const fovea_context *context) {
      const Packed floats = pack_view(context, weight.view(), false, FOVEA_PRECISION_HIGHEST),
                   bytes = pack_at(context, weight.view(), false);
      CHECK_EQ(fovea_packed_matrix_size(bytes.get()), fovea_packed_matrix_size(floats.get()) / 64 * 17);
    });
  }

  TEST_CASE("attention and a weight of floats take it as medium") {
    Random random(base_seed());
    const Layer layer = plain_layer(random, {20, 60}, 50);
    for_each_isa([&](const fovea_context *context) {
      const Packed packed = pack_view(context, layer.weight.view(), layer.out_in, FOVEA_PRECISION_HIGHEST);
      const fovea_tensor x = layer.x.view();
      std::vector<float> out[2];
      for (const int32_t precision : {FOVEA_PRECISION_MEDIUM, FOVEA_PRECISION_INT8}) {
        const Tensor<float> to = layer.make_out();
        const fovea_tensor view = to.view();
        fovea_linear_options options{};
        options.struct_size = sizeof options;
        options.precision = precision;
        REQUIRE_OK(fovea_linear(context, &x, packed.get(), &view, &options));
        out[precision == FOVEA_PRECISION_INT8] = to.dense();
      }
      CHECK(same_bits(out[0], out[1]));
    });
  }
}
