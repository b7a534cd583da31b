// Numbers as 8-bit numbers with scales, and back, against the definition computed one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/contexts.hpp"
#include "support/errors.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

// The least binary16 that is not below x, found by search; the largest where there is none.
uint16_t rounded_up(float x) {
  uint16_t low = 0, high = 0x7bff;
  while (low < high) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    if (widened(middle, FOVEA_F16) >= x) {
      high = middle;
    } else {
      low = static_cast<uint16_t>(middle + 1);
    }
  }
  return low;
}

struct Expected {
  std::vector<int> numbers;
  std::vector<uint16_t> scales;  // 0x7e00: any NaN
};

// Rows of whole groups, one after the other.
Expected expect(const std::vector<float> &x, int64_t group) {
  Expected expected;
  for (size_t begin = 0; begin < x.size(); begin += static_cast<size_t>(group)) {
    const auto *from = x.data() + begin;
    float largest = 0;
    bool finite = true;
    for (int64_t i = 0; i < group; ++i) {
      largest = std::max(largest, std::abs(from[i]));
      finite = finite && std::isfinite(from[i]);
    }
    // As float32's nearest it may be below the quotient, by less than what rounding to an integer hides; not 0.
    const float quotient = std::max(largest / 127.0f, 1e-45f);
    const uint16_t scale = !finite ? 0x7e00 : largest == 0 ? 0 : rounded_up(quotient);
    expected.scales.push_back(scale);
    for (int64_t i = 0; i < group; ++i) {
      const float of = finite && largest > 0 ? from[i] * (1 / widened(scale, FOVEA_F16)) : 0;
      expected.numbers.push_back(static_cast<int>(std::nearbyint(std::clamp(of, -127.0f, 127.0f))));
    }
  }
  return expected;
}

struct Quantized {
  Quantized(const Shape &shape, const std::vector<int> &order, int64_t group, int64_t gap)
      : numbers(shape, permuted_strides(shape, order, gap)),
        scales(grouped(shape, group), permuted_strides(grouped(shape, group), order, gap / 2)) {}

  static Shape grouped(Shape shape, int64_t group) {
    shape.back() /= group;
    return shape;
  }
  fovea_tensor scales_view() const {
    fovea_tensor view = scales.view();
    view.dtype = FOVEA_F16;
    return view;
  }

  Tensor<int8_t> numbers;
  Tensor<uint16_t> scales;
};

float any_number(Random &random, float size) {
  if (random.chance(0.03)) return 0;
  return size * random.normal();
}

}  // namespace

TEST_SUITE("quantize") {
  TEST_CASE("any shapes, groups, types and strides: the definition, with the same bits on every set") {
    for (int64_t n = 0; n < case_count(400); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t group = random.chance(0.4) ? random.integer(1, 200) : 16 * random.integer(1, 5);
      const int64_t groups = group % 16 == 0 ? random.integer(1, 6) : 1;
      const Shape shape = {random.integer(1, 3), random.integer(1, 9), groups * group};
      const std::vector<int> order = random.pick<std::vector<int>>({{0, 1, 2}, {1, 0, 2}});
      const fovea_dtype dtype = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
      CAPTURE(group);
      CAPTURE(dtype);
      Tensor<float> x(shape, permuted_strides(shape, order, random.integer(0, 3)));
      const float size = random.pick({1.0f, 1.0f, 100.0f, 1e-6f, 1e-9f, dtype == FOVEA_F16 ? 1.0f : 1e6f,
                                      dtype == FOVEA_F16 ? 1.0f : 1e-40f, dtype == FOVEA_F16 ? 1.0f : 1e30f});
      x.fill([&] { return rounded_to(any_number(random, size), dtype); });
      if (random.chance(0.3)) {  // a tie, in units of a scale of 1
        x.fill([&] { return static_cast<float>(random.integer(-254, 254)) * 0.5f; });
      }
      if (random.chance(0.2))
        x.at({0, 0, random.integer(0, shape[2] - 1)}) = random.pick({kNan, kInfinity, -kInfinity});
      const Expected expected = expect(x.dense(), group);
      const NarrowTensor narrow(x, dtype == FOVEA_F32 ? FOVEA_BF16 : dtype);
      const fovea_tensor given = dtype == FOVEA_F32 ? x.view() : narrow.view();
      for_each_isa([&](const fovea_context *context) {
        const Quantized made(shape, order, group, random.integer(0, 3));
        const fovea_tensor numbers = made.numbers.view(), scales = made.scales_view();
        REQUIRE_OK(fovea_quantize(context, &given, &numbers, &scales));
        const std::vector<int8_t> got = made.numbers.dense();
        CHECK_EQ(std::vector<int>(got.begin(), got.end()), expected.numbers);
        CHECK_EQ(made.scales.dense(), expected.scales);
        CHECK(made.numbers.gaps_untouched());
        CHECK(made.scales.gaps_untouched());

        const fovea_dtype type = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
        Tensor<float> back(shape, permuted_strides(shape, order, 1));
        Tensor<uint16_t> back16(shape, permuted_strides(shape, order, 1));
        fovea_tensor out = type == FOVEA_F32 ? back.view() : back16.view();
        out.dtype = type;
        made.numbers.memory().freeze();
        made.scales.memory().freeze();
        REQUIRE_OK(fovea_dequantize(context, &numbers, &scales, &out));
        int64_t wrong = 0;
        for_each_index(shape, [&](const Shape &index) {
          Shape of = index;
          of.back() /= group;
          const float scale = widened(made.scales.at(of), FOVEA_F16);
          float exact = static_cast<float>(made.numbers.at(index)) * scale;
          if (type == FOVEA_F16) exact = std::isnan(exact) ? exact : std::clamp(exact, -65504.0f, 65504.0f);
          exact = rounded_to(exact, type);
          const float found = type == FOVEA_F32 ? back.at(index) : widened(back16.at(index), type);
          wrong += std::isnan(exact) ? !std::isnan(found) : found != exact;
          // Half a scale, but where numbers are cut.
          const float original = x.at(index);
          if (type == FOVEA_F32 && std::isfinite(scale) && std::abs(original) < 8e6f) {
            wrong += !(std::abs(found - original) <= 0.5001f * scale);
          }
        });
        CHECK_EQ(wrong, 0);
        CHECK((type == FOVEA_F32 ? back.gaps_untouched() : back16.gaps_untouched()));
      });
    }
  }

  TEST_CASE("long rows, and the same bits for any number of threads") {
    Random random(base_seed());
    for (const int64_t dim : {4096, 20000}) {
      const Shape shape = {300, dim};
      Tensor<float> x(shape);
      x.fill_normal(random);
      const Expected expected = expect(x.dense(), dim);
      for (const int threads : {1, 2, 5}) {
        for (const std::string &isa : instruction_sets()) {
          const fovea_context *context = shared_context(isa, threads);
          const Quantized made(shape, {0, 1}, dim, 0);
          const fovea_tensor given = x.view(), numbers = made.numbers.view(), scales = made.scales_view();
          REQUIRE_OK(fovea_quantize(context, &given, &numbers, &scales));
          const std::vector<int8_t> got = made.numbers.dense();
          CHECK(std::equal(got.begin(), got.end(), expected.numbers.begin(), expected.numbers.end()));
          CHECK_EQ(made.scales.dense(), expected.scales);
          Tensor<float> back(shape);
          const fovea_tensor out = back.view();
          REQUIRE_OK(fovea_dequantize(context, &numbers, &scales, &out));
          int64_t wrong = 0;
          for (int64_t r = 0; r < shape[0]; ++r) {
            const float scale = widened(made.scales.at({r, 0}), FOVEA_F16);
            for (int64_t d = 0; d < dim; ++d)
              wrong += back.at({r, d}) != static_cast<float>(made.numbers.at({r, d})) * scale;
          }
          CHECK_EQ(wrong, 0);
        }
      }
    }
  }

  TEST_CASE("every scale is read as it is") {
    for_each_isa([&](const fovea_context *context) {
      Tensor<int8_t> ones({65536, 1});
      ones.fill([] { return static_cast<int8_t>(1); });
      Tensor<uint16_t> bits({65536, 1});
      for (int64_t n = 0; n < 65536; ++n) bits.at({n, 0}) = static_cast<uint16_t>(n);
      Tensor<float> back({65536, 1});
      fovea_tensor scales = bits.view();
      scales.dtype = FOVEA_F16;
      const fovea_tensor numbers = ones.view(), out = back.view();
      REQUIRE_OK(fovea_dequantize(context, &numbers, &scales, &out));
      int64_t wrong = 0;
      for (int64_t n = 0; n < 65536; ++n) {
        const float expected = widened(static_cast<uint16_t>(n), FOVEA_F16), found = back.at({n, 0});
        wrong += std::isnan(expected) ? !std::isnan(found) : found != expected;
      }
      CHECK_EQ(wrong, 0);
    });
  }

  TEST_CASE("nothing to do, and what is refused") {
    Tensor<float> x({2, 3, 64});
    x.fill([] { return 1.0f; });
    const Quantized made({2, 3, 64}, {0, 1, 2}, 32, 0);
    const fovea_tensor given = x.view(), numbers = made.numbers.view(), scales = made.scales_view();
    const auto refused = [&](fovea_status status, std::initializer_list<std::string> words, const auto &spoil) {
      fovea_tensor a = given, b = numbers, c = scales;
      spoil(a, b, c);
      check_refusal(fovea_quantize(nullptr, &a, &b, &c), status, words);
      CHECK(made.numbers.untouched());
      CHECK(made.scales.untouched());
    };
    using View = fovea_tensor;
    refused(FOVEA_BAD_DTYPE, {"x has dtype FOVEA_I8"}, [](View &a, View &, View &) { a.dtype = FOVEA_I8; });
    refused(FOVEA_BAD_DTYPE, {"out has dtype FOVEA_F8_E5M2", "FOVEA_I8"},
            [](View &, View &b, View &) { b.dtype = FOVEA_F8_E5M2; });
    refused(FOVEA_BAD_DTYPE, {"scales has dtype FOVEA_BF16", "FOVEA_F16"},
            [](View &, View &, View &c) { c.dtype = FOVEA_BF16; });
    refused(FOVEA_BAD_RANK, {"scales has rank 2"}, [](View &, View &, View &c) { c.rank = 2; });
    refused(FOVEA_BAD_SHAPE, {"out.shape[1]"}, [](View &, View &b, View &) { b.shape[1] = 2; });
    refused(FOVEA_BAD_SHAPE, {"scales.shape[0]"}, [](View &, View &, View &c) { c.shape[0] = 1; });
    for (const int64_t groups : {0, 3, 8, 64}) {
      refused(FOVEA_BAD_SHAPE, {"scales.shape[2] is " + std::to_string(groups), "64 features"},
              [&](View &, View &, View &c) {
                c.shape[2] = groups;
                c.strides[0] = 300;
                c.strides[1] = 100;
              });
    }
    refused(FOVEA_BAD_SHAPE, {"x.shape[2] is 0"},
            [](View &a, View &b, View &c) { a.shape[2] = b.shape[2] = c.shape[2] = 0; });
    refused(FOVEA_BAD_STRIDE, {"scales"}, [](View &, View &, View &c) { c.strides[0] = 0; });
    refused(FOVEA_OVERLAP, {"out", "x"}, [&](View &a, View &b, View &) { b.data = a.data; });
    refused(FOVEA_OVERLAP, {"out", "scales"}, [&](View &, View &b, View &c) { c.data = b.data; });
    check_refusal(fovea_quantize(nullptr, &given, &numbers, nullptr), FOVEA_NULL_POINTER, {"scales"});
    check_refusal(fovea_dequantize(nullptr, nullptr, &scales, &given), FOVEA_NULL_POINTER, {"q is NULL"});
    check_refusal(fovea_dequantize(nullptr, &given, &scales, &given), FOVEA_BAD_DTYPE, {"q has dtype FOVEA_F32"});
    fovea_tensor empty[] = {given, numbers, scales};
    for (fovea_tensor &tensor : empty) {
      tensor.shape[0] = 0;
      tensor.data = nullptr;
    }
    REQUIRE_OK(fovea_quantize(nullptr, &empty[0], &empty[1], &empty[2]));
    REQUIRE_OK(fovea_dequantize(nullptr, &empty[1], &empty[2], &empty[0]));
  }
}
