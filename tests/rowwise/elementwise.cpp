// exp and tanh on tensors: special values, strides, in place, guard pages, the same bits wherever an element stands.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "reference.hpp"
#include "support/contexts.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

using Call = fovea_status (*)(const fovea_context *, const fovea_tensor *, const fovea_tensor *);

struct Function {
  const char *name;
  Call call;
  double (*truth)(float);
};

const Function kFunctions[] = {{"exp", fovea_exp, reference::exp}, {"tanh", fovea_tanh, reference::tanh}};

std::vector<float> apply(Call call, const fovea_context *context, const std::vector<float> &x) {
  std::vector<float> out(x.size());
  const auto count = static_cast<int64_t>(x.size());
  const fovea_tensor x_view = fovea_tensor_contiguous(const_cast<float *>(x.data()), FOVEA_F32, 1, &count);
  const fovea_tensor out_view = fovea_tensor_contiguous(out.data(), FOVEA_F32, 1, &count);
  REQUIRE_OK(call(context, &x_view, &out_view));
  return out;
}

bool same_bits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Elements of out that are not, bit for bit, what a call with that element alone gives.
int64_t differing(const Function &function, const fovea_context *context, const std::vector<float> &x,
                  const std::vector<float> &out) {
  int64_t count = 0;
  for (size_t i = 0; i < x.size(); ++i) count += same_bits(apply(function.call, context, {x[i]})[0], out[i]) ? 0 : 1;
  return count;
}

void check_tensor(const Function &function, const Shape &shape, const Shape &x_strides, const Shape &out_strides,
                  Random &random) {
  Tensor<float> x(shape, x_strides);
  x.fill([&] { return 3 * random.normal(); }).memory().freeze();
  const std::vector<float> dense = x.dense();
  for_each_isa([&](const fovea_context *context) {
    const Tensor<float> out(shape, out_strides);
    const fovea_tensor x_view = x.view(), out_view = out.view();
    REQUIRE_OK(function.call(context, &x_view, &out_view));
    CHECK(differing(function, context, dense, out.dense()) == 0);
    CHECK(out.gaps_untouched());
  });
}

}  // namespace

TEST_SUITE("elementwise") {
  TEST_CASE("special values") {
    const float nan_with_all_bits = std::bit_cast<float>(0xffffffffu), signalling = std::bit_cast<float>(0x7f800001u);
    const std::vector<float> x = {0.0f,      -0.0f,      kInfinity,         -kInfinity,
                                  kNan,      -kNan,      nan_with_all_bits, signalling,
                                  0x1p-149f, -0x1p-149f, 0x1.fffffep127f,   -0x1.fffffep127f};
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> e = apply(fovea_exp, context, x), t = apply(fovea_tanh, context, x);
      const std::vector<float> exp_expected = {1, 1, kInfinity, 0}, tanh_expected = {0.0f, -0.0f, 1, -1};
      for (size_t i = 0; i < 4; ++i) {
        CHECK(same_bits(e[i], exp_expected[i]));
        CHECK(same_bits(t[i], tanh_expected[i]));
      }
      for (size_t i = 4; i < 8; ++i) {
        CHECK(std::isnan(e[i]));
        CHECK(std::isnan(t[i]));
      }
      CHECK(e[8] == 1);
      CHECK(e[9] == 1);
      CHECK(e[10] == kInfinity);
      CHECK(same_bits(e[11], 0.0f));
      CHECK(same_bits(t[8], x[8]));
      CHECK(same_bits(t[9], x[9]));
      CHECK(t[10] == 1);
      CHECK(t[11] == -1);
    });
  }

  TEST_CASE("tanh is odd") {
    Random random(base_seed());
    std::vector<float> x, negated;
    for (int n = 0; n < 10000; ++n) {
      x.push_back(random.normal() * 4);
      negated.push_back(-x.back());
    }
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> a = apply(fovea_tanh, context, x), b = apply(fovea_tanh, context, negated);
      int64_t wrong = 0;
      for (size_t i = 0; i < x.size(); ++i) wrong += same_bits(a[i], -b[i]) ? 0 : 1;
      CHECK(wrong == 0);
    });
  }

  TEST_CASE("every length, at both ends of a page") {
    Random random(base_seed());
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (const Function &function : kFunctions) {
        for (int64_t length = 0; length <= 70; ++length) check_tensor(function, {length}, {1}, {1}, random);
      }
    }
  }

  TEST_CASE("shapes and strides") {
    Random random(base_seed());
    for (const Function &function : kFunctions) {
      check_tensor(function, {3, 5, 7}, contiguous_strides({3, 5, 7}), contiguous_strides({3, 5, 7}), random);
      check_tensor(function, {3, 5, 7}, permuted_strides({3, 5, 7}, {1, 0, 2}, 2), contiguous_strides({3, 5, 7}),
                   random);
      check_tensor(function, {3, 5, 7}, contiguous_strides({3, 5, 7}), permuted_strides({3, 5, 7}, {1, 0, 2}, 3),
                   random);
      check_tensor(function, {4, 6}, {0, 1}, {6, 1}, random);
      check_tensor(function, {4, 6}, {-6, 1}, {6, 1}, random);
      check_tensor(function, {5, 1}, {9, 77}, {3, -4}, random);
      check_tensor(function, {2, 1, 3, 1, 2, 4}, contiguous_strides({2, 1, 3, 1, 2, 4}),
                   permuted_strides({2, 1, 3, 1, 2, 4}, {4, 2, 0, 1, 3, 5}), random);
      check_tensor(function, {2, 0, 3}, {3, 3, 1}, {3, 3, 1}, random);
    }
  }

  TEST_CASE("in place, and on many threads") {
    Random random(base_seed());
    std::vector<float> x(300001);
    for (float &value : x) value = 3 * random.normal();
    const auto count = static_cast<int64_t>(x.size());
    for (const Function &function : kFunctions) {
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> out = apply(function.call, context, x);
        std::vector<float> inout = x;
        const fovea_tensor view = fovea_tensor_contiguous(inout.data(), FOVEA_F32, 1, &count);
        REQUIRE_OK(function.call(context, &view, &view));
        int64_t wrong = 0, inaccurate = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          wrong += same_bits(out[i], inout[i]) ? 0 : 1;
          const double truth = function.truth(x[i]);
          inaccurate += std::abs(out[i] - truth) > 1.6 * 0x1p-23 * std::abs(truth) ? 1 : 0;
        }
        CHECK(wrong == 0);
        CHECK(inaccurate == 0);
      });
    }
  }
}
