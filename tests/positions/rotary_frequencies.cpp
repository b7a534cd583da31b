// The frequencies that models' configurations ask for, against their formulas in float64 and a few published numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "errors.hpp"
#include "positions.hpp"
#include "support/accuracy.hpp"
#include "support/contexts.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

using reference::RopeScaling;
using Type = RopeScaling::Type;

constexpr int32_t kind_of(Type type) { return static_cast<int32_t>(type); }
static_assert(kind_of(Type::plain) == FOVEA_FREQUENCIES_PLAIN && kind_of(Type::llama3) == FOVEA_FREQUENCIES_LLAMA3);

// The same in C.
struct Arguments {
  Tensor<float> short_factors, long_factors;
  fovea_tensor short_view{}, long_view{};
  fovea_rotary_frequencies_options options{};

  explicit Arguments(const RopeScaling &s, int64_t spread = 1) {
    options.struct_size = sizeof options;
    options.kind = kind_of(s.type);
    options.base = static_cast<float>(s.theta);
    if (s.type != Type::plain) options.factor = static_cast<float>(s.factor);
    options.original_length = static_cast<int64_t>(s.original_length);
    options.length = static_cast<int64_t>(s.length);
    options.low_frequency_factor = static_cast<float>(s.low_freq_factor);
    options.high_frequency_factor = static_cast<float>(s.high_freq_factor);
    if (s.type == Type::yarn) {
      options.fast_rotations = static_cast<float>(s.beta_fast);
      options.slow_rotations = static_cast<float>(s.beta_slow);
      options.mscale = static_cast<float>(s.mscale);
      options.mscale_all_dim = static_cast<float>(s.mscale_all_dim);
      if (!s.truncate) options.flags = FOVEA_YARN_UNROUNDED;
    }
    if (s.type != Type::longrope) return;
    const auto count = static_cast<int64_t>(s.short_factor.size());
    short_factors = Tensor<float>(Shape{count}, Shape{spread});
    long_factors = Tensor<float>(Shape{count}, Shape{-spread});
    short_view = short_factors.assign(s.short_factor).view();
    long_view = long_factors.assign(s.long_factor).view();
    options.short_factors = &short_view;
    options.long_factors = &long_view;
  }
};

void check_scaling(const RopeScaling &s, int64_t dim) {
  CAPTURE(kind_of(s.type));
  CAPTURE(dim);
  for (const int64_t spread : {1, -2}) {
    const Arguments arguments(s, spread);
    const Tensor<float> out(Shape{dim / 2}, Shape{spread});
    const Tensor<float> factor(Shape{1});
    const fovea_tensor to = out.view(), factor_view = factor.view();
    REQUIRE_OK(fovea_rotary_frequencies(&to, &factor_view, &arguments.options));
    CHECK(out.gaps_untouched());
    const std::vector<double> truth = reference::rope_frequencies(s, dim);
    const std::vector<float> made = out.dense();
    for (size_t j = 0; j < made.size(); ++j) {
      CHECK(std::abs(static_cast<double>(made[j]) - truth[j]) <= 1.001 * kEpsilon * truth[j]);
    }
    const double expected = reference::rope_attention_factor(s);
    CHECK(std::abs(static_cast<double>(factor(0)) - expected) <= 1.001 * kEpsilon * expected);
  }
}

RopeScaling llama3(double factor) {
  return {.type = Type::llama3,
          .theta = 500000,
          .factor = factor,
          .original_length = 8192,
          .low_freq_factor = 1,
          .high_freq_factor = 4};
}

RopeScaling longrope(int64_t dim, Random &random) {
  RopeScaling s{.type = Type::longrope, .factor = 32, .original_length = 4096};
  for (int64_t j = 0; j < dim / 2; ++j) {
    s.short_factor.push_back(1 + 0.1f * std::abs(random.normal()));
    s.long_factor.push_back(1 + 20 * std::abs(random.normal()));
  }
  return s;
}

// A call that must be refused; nothing may be written.
void refuse(fovea_status expected, std::initializer_list<std::string> words, const RopeScaling &good,
            const std::function<void(fovea_rotary_frequencies_options &)> &spoil) {
  Arguments arguments(good);
  spoil(arguments.options);
  const Tensor<float> out(Shape{4}), factor(Shape{1});
  const fovea_tensor to = out.view(), factor_view = factor.view();
  check_refusal(fovea_rotary_frequencies(&to, &factor_view, &arguments.options), expected, words);
  CHECK(out.untouched());
  CHECK(factor.untouched());
}

}  // namespace

TEST_SUITE("positions") {
  TEST_CASE("frequencies: plain and linear, without a factor to write") {
    for (const int64_t dim : {0, 2, 4, 64, 128, 130, 1024}) {
      for (const double theta : {10000.0, 500000.0, 1.5}) {
        check_scaling({.theta = theta}, dim);
        for (const double factor : {0.5, 1.0, 4.0, 8.0}) {
          check_scaling({.type = Type::linear, .theta = theta, .factor = factor}, dim);
        }
      }
    }
    const Tensor<float> out(Shape{3});
    const fovea_tensor to = out.view();
    const Arguments plain({});
    REQUIRE_OK(fovea_rotary_frequencies(&to, nullptr, &plain.options));
    CHECK(out(0) == 1.0f);
    CHECK(out(2) == static_cast<float>(std::pow(10000.0, -2.0 / 3.0)));
  }

  TEST_CASE("frequencies: dynamic, before and after the original length") {
    for (const int64_t dim : {2, 4, 64, 128}) {
      for (const double length : {0.0, 100.0, 2048.0, 2049.0, 8192.0, 1e9}) {
        for (const double factor : {1.0, 2.0, 8.0}) {
          check_scaling(
              {.type = Type::dynamic, .factor = factor, .original_length = 2048, .length = length}, dim);
        }
      }
    }
  }

  TEST_CASE("frequencies: YaRN, its range rounded or not, its attention factors") {
    for (const int64_t dim : {2, 4, 64, 128}) {
      for (const bool truncate : {true, false}) {
        for (const double theta : {10000.0, 150000.0, 1e6}) {
          RopeScaling s{.type = Type::yarn, .theta = theta, .factor = 32, .original_length = 4096, .truncate = truncate};
          check_scaling(s, dim);
          s.mscale = 0.707f;
          check_scaling(s, dim);  // one alone counts for nothing
          s.mscale_all_dim = 1;
          check_scaling(s, dim);
          s.beta_fast = 16;
          s.beta_slow = 2.5;
          check_scaling(s, dim);
          s.beta_slow = 16;  // low and high are one pair
          check_scaling(s, dim);
          s.factor = 0.5;
          check_scaling(s, dim);
        }
      }
    }
  }

  TEST_CASE("frequencies: LongRoPE, short and long") {
    Random random(base_seed());
    for (const int64_t dim : {0, 2, 96, 130}) {
      for (const double length : {0.0, 4096.0, 4097.0}) {
        RopeScaling s = longrope(dim, random);
        s.length = length;
        check_scaling(s, dim);
        s.factor = 0.5;
        check_scaling(s, dim);
      }
    }
  }

  TEST_CASE("frequencies: Llama 3.1 and 3.2") {
    for (const int64_t dim : {2, 64, 128}) {
      for (const double factor : {8.0, 32.0}) {
        RopeScaling s = llama3(factor);
        check_scaling(s, dim);
        s.low_freq_factor = 0;  // nothing turns so rarely
        check_scaling(s, dim);
      }
    }
  }

  TEST_CASE("frequencies: the numbers of Llama 3.1 8B, gpt-oss and Phi-3 mini 128k") {
    // As Hugging Face's transformers 5 reckons them, in float32.
    struct Published {
      RopeScaling scaling;
      int64_t dim;
      std::vector<std::pair<int64_t, double>> frequencies;
      double attention_factor;
    };
    Random random(base_seed());
    const Published models[] = {
        {llama3(8), 128,
         {{0, 1.0}, {1, 0.81461722}, {28, 0.0032114461}, {29, 0.0021665706}, {30, 0.0013718937}, {34, 1.7850779e-4},
          {35, 9.5562122e-5}, {36, 7.7846555e-5}, {63, 3.0689259e-7}},
         1.0},
        {{.type = Type::yarn, .theta = 150000, .factor = 32, .original_length = 4096, .truncate = false}, 64,
         {{0, 1.0}, {8, 0.050813273}, {9, 0.031705696}, {12, 0.0067949593}, {17, 1.2931869e-4}, {18, 3.8308812e-5},
          {31, 3.0235114e-7}},
         1.34657359},
        {longrope(96, random), 96, {}, 1.19023807}};
    for (const Published &model : models) {
      const Arguments arguments(model.scaling);
      const Tensor<float> out(Shape{model.dim / 2}), factor(Shape{1});
      const fovea_tensor to = out.view(), factor_view = factor.view();
      REQUIRE_OK(fovea_rotary_frequencies(&to, &factor_view, &arguments.options));
      for (const auto &[pair, frequency] : model.frequencies) {
        CAPTURE(pair);
        CHECK(std::abs(static_cast<double>(out(pair)) / frequency - 1) < 1e-5);
      }
      CHECK(std::abs(static_cast<double>(factor(0)) / model.attention_factor - 1) < 1e-7);
    }
  }

  TEST_CASE("errors: frequencies, numbers") {
    Random random(base_seed());
    const RopeScaling plain = {}, linear = {.type = Type::linear, .factor = 2};
    const RopeScaling dynamic = {.type = Type::dynamic, .factor = 2, .original_length = 100};
    const RopeScaling yarn = {.type = Type::yarn, .factor = 2, .original_length = 100};
    for (const int32_t kind : {-1, 6, INT32_MAX, INT32_MIN}) {
      refuse(FOVEA_BAD_OPTION, {"options.kind", std::to_string(kind), "LLAMA3"}, plain,
             [&](auto &o) { o.kind = kind; });
    }
    refuse(FOVEA_BAD_OPTION, {"options.flags", "0x2"}, yarn, [](auto &o) { o.flags = 2; });
    for (const size_t size : {size_t{0}, sizeof(fovea_rotary_frequencies_options) - 8}) {
      refuse(FOVEA_BAD_OPTION, {"struct_size"}, plain, [&](auto &o) { o.struct_size = size; });
    }
    for (const float base : {1.0f, 0.5f, 0.0f, -2.0f, kInfinity, kNan}) {
      refuse(FOVEA_BAD_VALUE, {"options.base", "above 1"}, plain, [&](auto &o) { o.base = base; });
    }
    for (const float factor : {0.0f, -2.0f, kInfinity, kNan}) {
      refuse(FOVEA_BAD_VALUE, {"options.factor", "above 0"}, linear, [&](auto &o) { o.factor = factor; });
    }
    for (const int64_t length : {int64_t{0}, int64_t{1}, int64_t{-5}, (int64_t{1} << 30) + 1, INT64_MAX}) {
      refuse(FOVEA_BAD_VALUE, {"options.original_length", std::to_string(length)}, yarn,
             [&](auto &o) { o.original_length = length; });
    }
    for (const int64_t length : {int64_t{-1}, (int64_t{1} << 30) + 1}) {
      refuse(FOVEA_BAD_VALUE, {"options.length", std::to_string(length)}, dynamic, [&](auto &o) { o.length = length; });
    }
    for (const float bad : {0.0f, -1.0f, kInfinity, kNan}) {
      refuse(FOVEA_BAD_VALUE, {"options.fast_rotations"}, yarn, [&](auto &o) { o.fast_rotations = bad; });
      refuse(FOVEA_BAD_VALUE, {"options.slow_rotations"}, yarn, [&](auto &o) { o.slow_rotations = bad; });
      if (bad == 0) continue;
      refuse(FOVEA_BAD_VALUE, {"options.mscale "}, yarn, [&](auto &o) { o.mscale = bad; });
      refuse(FOVEA_BAD_VALUE, {"options.mscale_all_dim"}, yarn, [&](auto &o) { o.mscale_all_dim = bad; });
      refuse(FOVEA_BAD_VALUE, {"options.low_frequency_factor"}, llama3(8),
             [&](auto &o) { o.low_frequency_factor = bad; });
    }
    for (const float bad : {1.0f, 0.5f, 0.0f, -1.0f, kInfinity, kNan}) {
      refuse(FOVEA_BAD_VALUE, {"options.high_frequency_factor", "above 1"}, llama3(8),
             [&](auto &o) { o.high_frequency_factor = bad; });
    }
  }

  TEST_CASE("errors: frequencies, what another kind takes") {
    Random random(base_seed());
    const RopeScaling plain = {}, linear = {.type = Type::linear, .factor = 2};
    const RopeScaling yarn = {.type = Type::yarn, .factor = 2, .original_length = 100};
    const fovea_tensor any{};
    const auto none = [&](const char *name, const char *kind, const RopeScaling &of, const auto &spoil) {
      refuse(FOVEA_BAD_OPTION, {"options." + std::string(name) + " ", "FOVEA_FREQUENCIES_" + std::string(kind)}, of,
             spoil);
    };
    none("factor", "PLAIN", plain, [](auto &o) { o.factor = 2; });
    none("flags", "LINEAR", linear, [](auto &o) { o.flags = FOVEA_YARN_UNROUNDED; });
    none("original_length", "LINEAR", linear, [](auto &o) { o.original_length = 2; });
    none("length", "YARN", yarn, [](auto &o) { o.length = 2; });
    none("low_frequency_factor", "YARN", yarn, [](auto &o) { o.low_frequency_factor = 2; });
    none("high_frequency_factor", "YARN", yarn, [](auto &o) { o.high_frequency_factor = 2; });
    none("fast_rotations", "LLAMA3", llama3(8), [](auto &o) { o.fast_rotations = 2; });
    none("slow_rotations", "LLAMA3", llama3(8), [](auto &o) { o.slow_rotations = 2; });
    none("mscale", "LONGROPE", longrope(8, random), [](auto &o) { o.mscale = 2; });
    none("mscale_all_dim", "LONGROPE", longrope(8, random), [](auto &o) { o.mscale_all_dim = 2; });
    none("short_factors", "YARN", yarn, [&](auto &o) { o.short_factors = &any; });
    none("long_factors", "PLAIN", plain, [&](auto &o) { o.long_factors = &any; });
  }

  TEST_CASE("errors: frequencies, tensors") {
    Random random(base_seed());
    const RopeScaling good = longrope(8, random);
    refuse(FOVEA_NULL_POINTER, {"short_factors is NULL"}, good, [](auto &o) { o.short_factors = nullptr; });
    refuse(FOVEA_NULL_POINTER, {"long_factors is NULL"}, good, [](auto &o) { o.long_factors = nullptr; });
    Tensor<float> five(Shape{5});
    five.fill([] { return 1.0f; });
    const fovea_tensor five_view = five.view();
    refuse(FOVEA_BAD_SHAPE, {"short_factors.shape[0]", "5", "4"}, good, [&](auto &o) { o.short_factors = &five_view; });
    for (const float bad : {0.0f, -1.0f, kInfinity, kNan}) {
      Tensor<float> four(Shape{4});
      four.assign({1, 1, bad, 1});
      const fovea_tensor view = four.view();
      refuse(FOVEA_BAD_VALUE, {"long_factors[2]"}, good, [&](auto &o) { o.long_factors = &view; });
    }
    const Arguments arguments(good);
    const Tensor<float> out(Shape{4}), factor(Shape{2});
    const fovea_tensor to = out.view();
    check_refusal(fovea_rotary_frequencies(nullptr, nullptr, &arguments.options), FOVEA_NULL_POINTER, {"frequencies"});
    check_refusal(fovea_rotary_frequencies(&to, nullptr, nullptr), FOVEA_BAD_VALUE, {"options.base is 0", "above 1"});
    const auto refuse_out = [&](fovea_status status, std::initializer_list<std::string> words, const auto &spoil) {
      fovea_tensor bad = to;
      spoil(bad);
      check_refusal(fovea_rotary_frequencies(&bad, nullptr, &arguments.options), status, words);
      CHECK(out.untouched());
    };
    refuse_out(FOVEA_NULL_POINTER, {"frequencies.data"}, [](auto &bad) { bad.data = nullptr; });
    refuse_out(FOVEA_BAD_RANK, {"frequencies"}, [](auto &bad) { bad.rank = 2; });
    refuse_out(FOVEA_BAD_DTYPE, {"frequencies"}, [](auto &bad) { bad.dtype = FOVEA_BF16; });
    refuse_out(FOVEA_BAD_STRIDE, {"frequencies"}, [](auto &bad) { bad.strides[0] = 0; });
    refuse_out(FOVEA_OVERLAP, {"frequencies", "long_factors"}, [&](auto &bad) { bad = arguments.long_view; });
    fovea_tensor bad = factor.view();
    check_refusal(fovea_rotary_frequencies(&to, &bad, &arguments.options), FOVEA_BAD_SHAPE, {"attention_factor.shape[0]", "2"});
    bad.shape[0] = 1;
    bad.dtype = FOVEA_I32;
    check_refusal(fovea_rotary_frequencies(&to, &bad, &arguments.options), FOVEA_BAD_DTYPE, {"attention_factor"});
    bad = to;
    bad.shape[0] = 1;
    check_refusal(fovea_rotary_frequencies(&to, &bad, &arguments.options), FOVEA_OVERLAP, {"frequencies", "attention_factor"});
    CHECK(out.untouched());
    CHECK(factor.untouched());
  }
}
