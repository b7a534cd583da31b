// Numbers as 4-bit numbers with scales and least numbers, and back, against the definition computed one by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/contexts.hpp"
#include "support/errors.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"

using namespace testing;

namespace {

// All finite binary16 numbers, in order; of zeros the positive one.
const std::vector<float> &all_halves() {
  static const std::vector<float> halves = [] {
    std::vector<float> made;
    for (int bits = 0xfbff; bits > 0x8000; --bits) made.push_back(widened(static_cast<uint16_t>(bits), FOVEA_F16));
    for (int bits = 0; bits < 0x7c00; ++bits) made.push_back(widened(static_cast<uint16_t>(bits), FOVEA_F16));
    return made;
  }();
  return halves;
}

// The largest that is not above x, or the least of all; the least that is not below x, or the largest of all.
float rounded_down(float x) {
  const auto above = std::upper_bound(all_halves().begin(), all_halves().end(), x);
  return above == all_halves().begin() ? *above : *(above - 1);
}
float rounded_up(float x) {
  const auto at = std::lower_bound(all_halves().begin(), all_halves().end(), x);
  return at == all_halves().end() ? all_halves().back() : *at;
}

struct Expected {
  std::vector<uint8_t> numbers;
  std::vector<uint16_t> scales;
};

// Rows of whole groups, one after the other.
Expected expect(const std::vector<float> &x, int64_t group) {
  Expected expected;
  expected.numbers.assign(x.size() / 2, 0);
  for (size_t begin = 0; begin < x.size(); begin += static_cast<size_t>(group)) {
    const auto from = x.begin() + static_cast<int64_t>(begin), to = from + group;
    const bool finite = std::all_of(from, to, [](float number) { return std::isfinite(number); });
    const float least = finite ? rounded_down(*std::min_element(from, to)) : 0.0f;
    const float range = finite ? *std::max_element(from, to) - least : kNan;
    // A range above 0 has a scale that is, even where a fifteenth of it is 0. Below 0 all numbers are cut to the least.
    const float scale = range <= 0 ? 0 : rounded_up(std::max(range / 15.0f, 1e-45f));
    expected.scales.push_back(finite ? narrowed(scale, FOVEA_F16) : 0x7e00);
    expected.scales.push_back(narrowed(least, FOVEA_F16));
    for (size_t i = begin; i < begin + static_cast<size_t>(group); ++i) {
      const float of = finite && scale > 0 ? (x[i] - least) * (1 / scale) : 0;
      const auto number = static_cast<int>(std::nearbyint(std::clamp(of, 0.0f, 15.0f)));
      expected.numbers[i / 32 * 16 + i % 16] |= static_cast<uint8_t>(i % 32 < 16 ? number : number << 4);
    }
  }
  return expected;
}

struct Quantized {
  Quantized(const Shape &shape, const std::vector<int> &order, int64_t group, int64_t gap)
      : numbers(with_last(shape, shape.back() / 2), permuted_strides(with_last(shape, shape.back() / 2), order, gap)),
        scales(with_last(shape, 2 * (shape.back() / group)),
               permuted_strides(with_last(shape, 2 * (shape.back() / group)), order, gap / 2)) {}

  static Shape with_last(Shape shape, int64_t size) {
    shape.back() = size;
    return shape;
  }
  fovea_tensor numbers_view() const {
    fovea_tensor view = numbers.view();
    view.dtype = FOVEA_U8;
    return view;
  }
  fovea_tensor scales_view() const {
    fovea_tensor view = scales.view();
    view.dtype = FOVEA_F16;
    return view;
  }
  int number(const Shape &index) const {
    const int64_t d = index.back();
    const int byte = numbers.at(with_last(index, d / 32 * 16 + d % 16));
    return d % 32 < 16 ? byte % 16 : byte / 16;
  }
  float scale(const Shape &index, int64_t at) const { return widened(scales.at(with_last(index, at)), FOVEA_F16); }

  Tensor<uint8_t> numbers;
  Tensor<uint16_t> scales;
};

// What a number stands for, in a type.
float meant(int number, float scale, float least, fovea_dtype type) {
  const float exact = std::fma(static_cast<float>(number), scale, least);
  if (type == FOVEA_F32 || std::isnan(exact)) return exact;
  const bool cut = type == FOVEA_F16 && std::isfinite(scale) && std::isfinite(least);
  return rounded_to(cut ? std::clamp(exact, -65504.0f, 65504.0f) : exact, type);
}

bool same_number(float found, float expected) {
  return std::isnan(expected) ? std::isnan(found) : found == expected && std::signbit(found) == std::signbit(expected);
}

// Rows back as a type: how many numbers are not what they stand for.
int64_t wrong_numbers(const fovea_context *context, const Quantized &made, const Shape &shape, int64_t group,
                      fovea_dtype type, const Tensor<float> *original) {
  Tensor<float> back(shape);
  Tensor<uint16_t> back16(shape);
  fovea_tensor out = type == FOVEA_F32 ? back.view() : back16.view();
  out.dtype = type;
  made.numbers.memory().freeze();
  made.scales.memory().freeze();
  const fovea_tensor numbers = made.numbers_view(), scales = made.scales_view();
  REQUIRE_OK(fovea_dequantize(context, &numbers, &scales, &out));
  int64_t wrong = 0;
  for_each_index(shape, [&](const Shape &index) {
    const int64_t g = index.back() / group;
    const float scale = made.scale(index, 2 * g), least = made.scale(index, 2 * g + 1);
    const float found = type == FOVEA_F32 ? back.at(index) : widened(back16.at(index), type);
    wrong += !same_number(found, meant(made.number(index), scale, least, type));
    if (original == nullptr || type != FOVEA_F32 || !std::isfinite(scale)) return;
    const float x = original->at(index);  // half a scale, but where numbers are cut
    if (x >= -65504.0f && x <= least + 15 * 65504.0f) wrong += !(std::abs(found - x) <= 0.5001f * scale);
  });
  return wrong;
}

}  // namespace

TEST_SUITE("quantize") {
  TEST_CASE("4 bits: any shapes, groups, types and strides: the definition, with the same bits on every set") {
    for (int64_t n = 0; n < case_count(300); ++n) {
      const uint64_t seed = base_seed() + 50000 + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const int64_t group = 32 * random.integer(1, 5);
      const Shape shape = {random.integer(1, 3), random.integer(1, 9), group * random.integer(1, 4)};
      const std::vector<int> order = random.pick<std::vector<int>>({{0, 1, 2}, {1, 0, 2}});
      const fovea_dtype dtype = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
      CAPTURE(group);
      CAPTURE(dtype);
      const bool half = dtype == FOVEA_F16;
      Tensor<float> x(shape, permuted_strides(shape, order, random.integer(0, 3)));
      const float size = random.pick(
          {1.0f, 1.0f, 100.0f, 1e-6f, 1e-9f, half ? 1.0f : 1e5f, half ? 1.0f : 1e-40f, half ? 1.0f : 1e30f});
      const float middle = random.pick({0.0f, 0.0f, 3.0f, -50.0f, half ? 0.0f : 1e6f, half ? 0.0f : -1e6f});
      x.fill([&] { return rounded_to(random.chance(0.03) ? 0 : middle + size * random.normal(), dtype); });
      if (random.chance(0.3)) {  // a tie, in units of a scale of 1
        x.fill([&] { return static_cast<float>(random.integer(0, 30)) * 0.5f; });
        for (int64_t d = 0; d < shape[2]; d += group) {
          x.at({0, 0, d}) = 0;
          x.at({0, 0, d + 1}) = 15;
        }
      }
      if (random.chance(0.1)) {  // constant, and a zero of each sign
        const float one = rounded_to(size * random.normal(), dtype);
        x.fill([&] { return one; });
        for (int64_t d = 0; d < group; ++d) x.at({0, 0, d}) = random.chance(0.5) ? 0.0f : -0.0f;
      }
      if (random.chance(0.2))
        x.at({0, 0, random.integer(0, shape[2] - 1)}) = random.pick({kNan, kInfinity, -kInfinity});
      const Expected expected = expect(x.dense(), group);
      const NarrowTensor narrow(x, dtype == FOVEA_F32 ? FOVEA_BF16 : dtype);
      const fovea_tensor given = dtype == FOVEA_F32 ? x.view() : narrow.view();
      for_each_isa([&](const fovea_context *context) {
        const Quantized made(shape, order, group, random.integer(0, 3));
        const fovea_tensor numbers = made.numbers_view(), scales = made.scales_view();
        REQUIRE_OK(fovea_quantize(context, &given, &numbers, &scales));
        CHECK_EQ(made.numbers.dense(), expected.numbers);
        CHECK_EQ(made.scales.dense(), expected.scales);
        CHECK(made.numbers.gaps_untouched());
        CHECK(made.scales.gaps_untouched());
        const fovea_dtype type = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
        CHECK_EQ(wrong_numbers(context, made, shape, group, type, &x), 0);
      });
    }
  }

  TEST_CASE("4 bits: long rows, and the same bits for any number of threads") {
    Random random(base_seed());
    const Shape shape = {300, 4096};
    Tensor<float> x(shape);
    x.fill_normal(random);
    for (const int64_t group : {32, 4096}) {
      const Expected expected = expect(x.dense(), group);
      for (const int threads : {1, 2, 5}) {
        for (const std::string &isa : instruction_sets()) {
          const fovea_context *context = shared_context(isa, threads);
          const Quantized made(shape, {0, 1}, group, 0);
          const fovea_tensor given = x.view(), numbers = made.numbers_view(), scales = made.scales_view();
          REQUIRE_OK(fovea_quantize(context, &given, &numbers, &scales));
          CHECK_EQ(made.numbers.dense(), expected.numbers);
          CHECK_EQ(made.scales.dense(), expected.scales);
          CHECK_EQ(wrong_numbers(context, made, shape, group, FOVEA_F32, nullptr), 0);
        }
      }
    }
  }

  TEST_CASE("4 bits: every byte beside every kind of scale and least number is read as it is") {
    constexpr uint16_t kinds[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00,
                                  0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7d01, 0x2e66, 0x5640};
    for (const fovea_dtype type : {FOVEA_F32, FOVEA_F16, FOVEA_BF16}) {
      for_each_isa([&](const fovea_context *context) {
        const Quantized made({256, 16, 32}, {0, 1, 2}, 32, 0);
        for_each_index({256, 16}, [&](const Shape &at) {
          made.scales(at[0], at[1], 0) = kinds[at[0] / 16];
          made.scales(at[0], at[1], 1) = kinds[at[0] % 16];
          for (int64_t i = 0; i < 16; ++i) made.numbers(at[0], at[1], i) = static_cast<uint8_t>(16 * at[1] + i);
        });
        CHECK_EQ(wrong_numbers(context, made, {256, 16, 32}, 32, type, nullptr), 0);
      });
    }
  }

  TEST_CASE("4 bits: nothing to do, and what is refused") {
    Tensor<float> x({2, 3, 128});
    x.fill([] { return 1.0f; });
    const Quantized made({2, 3, 128}, {0, 1, 2}, 32, 0);
    const fovea_tensor given = x.view(), numbers = made.numbers_view(), scales = made.scales_view();
    using View = fovea_tensor;
    const auto refused = [&](fovea_status status, std::initializer_list<std::string> words, const auto &spoil) {
      View a = given, b = numbers, c = scales;
      spoil(a, b, c);
      check_refusal(fovea_quantize(nullptr, &a, &b, &c), status, words);
      CHECK(made.numbers.untouched());
      CHECK(made.scales.untouched());
    };
    refused(FOVEA_BAD_DTYPE, {"x has dtype FOVEA_U8"}, [](View &a, View &, View &) { a.dtype = FOVEA_U8; });
    refused(FOVEA_BAD_SHAPE, {"out.shape[2] is 128", "64 (half of x's size)"},
            [](View &, View &b, View &) { b.shape[2] = 128, b.strides[1] = 128, b.strides[0] = 400; });
    refused(FOVEA_BAD_SHAPE, {"out.shape[1]"}, [](View &, View &b, View &) { b.shape[1] = 2; });
    refused(FOVEA_BAD_SHAPE, {"x.shape[2] is 80", "multiple of 32 for FOVEA_U8"},
            [](View &a, View &b, View &) { a.shape[2] = 80, b.shape[2] = 40; });
    refused(FOVEA_BAD_SHAPE, {"x.shape[2] is 0"},
            [](View &a, View &b, View &c) { a.shape[2] = b.shape[2] = c.shape[2] = 0; });
    for (const int64_t count : {0, 1, 3, 5, 6, 7, 16, 128}) {
      refused(FOVEA_BAD_SHAPE,
              {"scales.shape[2] is " + std::to_string(count), "pairs for groups of a multiple of 32", "128 features"},
              [&](View &, View &, View &c) {
                c.shape[2] = count;
                c.strides[0] = 600;
                c.strides[1] = 200;
              });
    }
    refused(FOVEA_OVERLAP, {"out", "scales"}, [](View &, View &b, View &c) { c.data = b.data; });
    View q = numbers, out = given;
    q.shape[2] = 40;
    check_refusal(fovea_dequantize(nullptr, &q, &scales, &out), FOVEA_BAD_SHAPE,
                  {"q.shape[2] is 40", "multiple of 16 for FOVEA_U8"});
    out.shape[2] = 64;
    check_refusal(fovea_dequantize(nullptr, &numbers, &scales, &out), FOVEA_BAD_SHAPE,
                  {"out.shape[2] is 64", "128 (twice q's size)"});
    q = numbers;
    q.shape[0] = 0;
    q.shape[2] = int64_t{1} << 62;  // twice as many features fit no number
    check_refusal(fovea_dequantize(nullptr, &q, &scales, &given), FOVEA_SIZE_OVERFLOW, {"q"});
    View empty[] = {given, numbers, scales};
    for (View &tensor : empty) {
      tensor.shape[0] = 0;
      tensor.data = nullptr;
    }
    REQUIRE_OK(fovea_quantize(nullptr, &empty[0], &empty[1], &empty[2]));
    REQUIRE_OK(fovea_dequantize(nullptr, &empty[1], &empty[2], &empty[0]));
  }
}
