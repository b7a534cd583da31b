// Softmax over any axis and its logarithm, against float64: every axis, sizes near a register, strides, types, in
// place, NaN.
#include <doctest/doctest.h>

#include <cmath>

#include "errors.hpp"
#include "reference.hpp"
#include "support/contexts.hpp"
#include "support/narrow.hpp"
#include "support/same_bits.hpp"
#include "support/tensor.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

fovea_status run(const fovea_context *context, const fovea_tensor &x, int32_t axis, const fovea_tensor &out, bool log) {
  return log ? fovea_log_softmax(context, &x, axis, &out) : fovea_softmax(context, &x, axis, &out);
}

std::vector<float> result(const fovea_context *context, const Tensor<float> &x, int32_t axis, bool log) {
  const Tensor<float> out(x.shape(), x.strides());
  REQUIRE_OK(run(context, x.view(), axis, out.view(), log));
  CHECK(out.gaps_untouched());
  return out.dense();
}

template <typename Real>
std::vector<Real> formula(const Tensor<float> &x, int32_t axis, bool log) {
  int64_t outer = 1, inner = 1;
  for (int32_t n = 0; n < axis; ++n) outer *= x.shape()[static_cast<size_t>(n)];
  for (auto n = static_cast<size_t>(axis) + 1; n < x.shape().size(); ++n) inner *= x.shape()[n];
  return reference::softmax<Real>(x.dense(), outer, x.shape()[static_cast<size_t>(axis)], inner, log);
}

// Softmax may lose two roundings of the exponent, each of its size, some of the power and the quotient, and those of
// the sum. The logarithm may lose a rounding of each term, and those of the sum, which are its absolute error.
int64_t bad_elements(const std::vector<float> &out, const std::vector<double> &truth, int64_t key_len, bool log) {
  const double sum = static_cast<double>(key_len) / 4;
  int64_t bad = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double exponent = log ? std::abs(truth[i]) : truth[i] == 0 ? 0 : std::abs(std::log(truth[i]));
    const double bound =
        0x1p-24 * (log ? 8 + sum + 4 * exponent : (24 + sum + 3 * exponent) * truth[i]) + (log ? 0 : 0x1p-124);
    const bool fits = std::isnan(truth[i])   ? std::isnan(out[i])
                      : std::isinf(truth[i]) ? static_cast<double>(out[i]) == truth[i]
                                             : std::abs(static_cast<double>(out[i]) - truth[i]) <= bound;
    bad += fits ? 0 : 1;
  }
  return bad;
}

void check_every_axis(const Tensor<float> &x) {
  x.memory().freeze();
  const auto rank = static_cast<int32_t>(x.shape().size());
  for (int32_t axis = 0; axis < rank; ++axis) {
    for (const bool log : {false, true}) {
      CAPTURE(axis);
      CAPTURE(log);
      const std::vector<double> truth = formula<double>(x, axis, log);
      for_each_isa([&](const fovea_context *context) {
        const std::vector<float> out = result(context, x, axis, log);
        CHECK_EQ(bad_elements(out, truth, x.shape()[static_cast<size_t>(axis)], log), 0);
        CHECK(same_bits(result(context, x, axis - rank, log), out));
      });
    }
  }
}

}  // namespace

TEST_SUITE("softmax") {
  TEST_CASE("worked example") {
    Tensor<float> x({2, 2});
    x.assign({0, 1, std::log(3.0f), 1});
    for_each_isa([&](const fovea_context *context) {
      const std::vector<float> columns = result(context, x, 0, false), logs = result(context, x, 0, true);
      CHECK(columns[0] == doctest::Approx(0.25));
      CHECK(columns[2] == doctest::Approx(0.75));
      CHECK(columns[1] == 0.5f);
      CHECK(logs[0] == doctest::Approx(std::log(0.25)));
      CHECK(logs[3] == doctest::Approx(std::log(0.5)));
      CHECK(result(context, x, 1, false)[3] == doctest::Approx(std::exp(1.0) / (3 + std::exp(1.0))));
    });
  }

  TEST_CASE("every axis, sizes near the registers, at both ends of a page") {
    for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
      const WithPlacement here(placement);
      for (int64_t size = 1; size <= 140; ++size) {
        CAPTURE(size);
        Random random(base_seed());
        Tensor<float> wide({3, 5, size}), deep({2, size, 3});
        check_every_axis(wide.fill([&] { return 8 * random.normal(); }));
        check_every_axis(deep.fill([&] { return 8 * random.normal(); }));
      }
    }
  }

  TEST_CASE("random shapes and strides") {
    for (int64_t n = 0; n < case_count(100); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      Shape shape;
      for (int64_t axes = random.integer(1, 6); axes > 0; --axes) {
        shape.push_back(random.chance(0.1) ? random.integer(60, 200) : random.integer(1, 4));
      }
      std::vector<int> order;
      for (size_t axis = 0; axis < shape.size(); ++axis) order.push_back(static_cast<int>(axis));
      if (order.size() > 2 && random.chance(0.5)) std::swap(order[0], order[order.size() - 2]);
      Tensor<float> x(shape, permuted_strides(shape, order, random.integer(0, 2)));
      const float scale = random.pick({1.0f, 30.0f, 1e-3f});
      check_every_axis(x.fill([&] { return scale * random.normal(); }));
    }
  }

  TEST_CASE("long axes, as exact as a plain evaluation or more") {
    for (const Shape &shape : {Shape{30000, 5}, Shape{2, 5000, 70}}) {
      Random random(base_seed());
      Tensor<float> x(shape);
      x.fill_normal(random);
      const auto axis = static_cast<int32_t>(shape.size()) - 2;
      for (const bool log : {false, true}) {
        const auto truth = formula<double>(x, axis, log);
        const auto plain = formula<float>(x, axis, log);
        const auto worst = [&](const std::vector<float> &values) {
          double most = 0;
          for (size_t i = 0; i < truth.size(); ++i) {
            most = std::max(most, std::abs((static_cast<double>(values[i]) - truth[i]) / truth[i]));
          }
          return most;
        };
        for_each_isa(
            [&](const fovea_context *context) { CHECK(worst(result(context, x, axis, log)) <= 2 * worst(plain)); });
      }
    }
  }

  TEST_CASE("NaN, infinities, columns of -infinity alone: as the formula has it") {
    for (const int32_t axis : {0, 1}) {
      for (const int64_t size : {3, 40}) {
        Tensor<float> x({size, size});
        x.fill([] { return 1.0f; });
        const auto at = [&](int64_t k, int64_t line) -> float & { return axis == 0 ? x(k, line) : x(line, k); };
        at(1, 0) = kNan;
        for (int64_t k = 0; k < size; ++k) at(k, 1) = -kInfinity;
        at(2, 2) = -kInfinity;
        for (const bool log : {false, true}) {
          CAPTURE(axis);
          CAPTURE(log);
          for_each_isa([&](const fovea_context *context) {
            const std::vector<float> out = result(context, x, axis, log);
            const auto got = [&](int64_t k, int64_t line) {
              return out[static_cast<size_t>(axis == 0 ? k * size + line : line * size + k)];
            };
            for (int64_t k = 0; k < size; ++k) {
              CHECK(std::isnan(got(k, 0)));
              CHECK(std::isnan(got(k, 1)));
            }
            CHECK(got(2, 2) == (log ? -kInfinity : 0.0f));
            const double rest = 1.0 / static_cast<double>(size - 1);
            CHECK(got(0, 2) == doctest::Approx(log ? std::log(rest) : rest));
          });
          at(1, 0) = kInfinity;
          for_each_isa([&](const fovea_context *context) {
            const std::vector<float> out = result(context, x, axis, log);
            CHECK(std::isnan(out[0]));
          });
          at(1, 0) = kNan;
        }
      }
    }
  }

  TEST_CASE("in place, any types over an axis that is not the last, any threads: the same bits") {
    for (const Shape &shape : {Shape{3, 7, 50}, Shape{40, 300}, Shape{5, 4, 3, 30}}) {
      Random random(base_seed());
      Tensor<float> x(shape);
      x.fill([&] { return 3 * random.normal(); });
      for (int32_t axis = 0; axis < static_cast<int32_t>(shape.size()); ++axis) {
        for (const bool log : {false, true}) {
          CAPTURE(axis);
          CAPTURE(log);
          for_each_isa([&](const fovea_context *context) {
            const std::vector<float> out = result(context, x, axis, log);
            Tensor<float> same(shape);
            same.assign(x.dense());
            REQUIRE_OK(run(context, same.view(), axis, same.view(), log));
            CHECK(same_bits(same.dense(), out));
            if (axis + 1 == static_cast<int32_t>(shape.size()) && !log) return;
            for (const fovea_dtype from : {FOVEA_F16, FOVEA_BF16}) {
              const NarrowTensor half(x, from);
              Tensor<float> floats(shape);
              for_each_index(shape, [&](const Shape &i) { floats.at(i) = widened(half.at(i), from); });
              const std::vector<float> truth = result(context, floats, axis, log);
              const auto check = [&](const NarrowTensor &in, const NarrowTensor &to, fovea_dtype dtype) {
                REQUIRE_OK(run(context, in.view(), axis, to.view(), log));
                size_t next = 0;
                int64_t wrong = 0;
                for_each_index(shape,
                               [&](const Shape &i) { wrong += to.at(i) == narrowed(truth[next++], dtype) ? 0 : 1; });
                CHECK_EQ(wrong, 0);
              };
              for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) check(half, NarrowTensor(x, dtype), dtype);
              check(half, half, from);
            }
          });
          for (const std::string &isa : instruction_sets()) {
            const std::vector<float> expected = result(shared_context(isa, 1), x, axis, log);
            for (int threads : {2, 5}) CHECK(same_bits(result(shared_context(isa, threads), x, axis, log), expected));
            const PoolContext pool(isa, 3, 7);
            CHECK(same_bits(result(pool.get(), x, axis, log), expected));
          }
        }
      }
    }
  }

  TEST_CASE("errors") {
    Tensor<float> x({2, 3}), out({2, 3});
    x.fill([] { return 1.0f; });
    for (const bool log : {false, true}) {
      for (const int32_t axis : {-3, 2, INT32_MIN, INT32_MAX}) {
        check_refusal(run(nullptr, x.view(), axis, out.view(), log), FOVEA_BAD_VALUE, {"axis is", "-2 to 1"});
      }
      fovea_tensor other = out.view();
      other.shape[1] = 2;
      check_refusal(run(nullptr, x.view(), 0, other, log), FOVEA_BAD_SHAPE, {"out.shape[1]"});
      other = x.view();
      other.data = x.data() + 1;
      check_refusal(run(nullptr, x.view(), 0, other, log), FOVEA_OVERLAP, {"out", "x"});
    }
    CHECK(out.untouched());
    for (const Shape &empty : {Shape{0, 3}, Shape{3, 0}}) {
      const Tensor<float> none(empty);
      for (const int32_t axis : {0, 1}) REQUIRE_OK(run(nullptr, none.view(), axis, none.view(), false));
    }
  }
}
