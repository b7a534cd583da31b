// How far exp and tanh are from the true value, in units in the last place of the true value, over the floats of every
// size and sign. The truth is libm's double, whose own error is some 2^-29 of a float's ulp.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "support/contexts.hpp"
#include "support/tensor.hpp"

using namespace testing;

namespace {

constexpr int64_t kBlock = 1 << 16;

struct Function {
  const char *name;
  fovea_status (*call)(const fovea_context *, const fovea_tensor *, const fovea_tensor *);
  double (*truth)(double);
  double limit;     // ulp
  bool keeps_sign;  // the result has the sign of the argument
};

const Function kFunctions[] = {{"exp", fovea_exp, [](double x) { return std::exp(x); }, 1.6, false},
                               {"tanh", fovea_tanh, [](double x) { return std::tanh(x); }, 1.4, true}};

// Infinity counts as 2^128, the float that would follow the largest, on both sides.
double ulps_between(float actual, double truth) {
  constexpr double past_largest = 0x1p128;
  const double value = std::isinf(actual) ? std::copysign(past_largest, actual) : actual;
  const double target = std::abs(truth) > past_largest ? std::copysign(past_largest, truth) : truth;
  const int exponent = target == 0 ? -126 : std::max(std::ilogb(target), -126);
  return std::abs(value - target) / std::ldexp(1.0, std::min(exponent, 127) - 23);
}

struct Worst {
  double ulps = 0;
  float at = 0;
  int64_t wrong = 0;  // NaN lost or made up, or a wrong sign

  void add(const Function &function, float x, float actual, double truth) {
    if (std::isnan(x) || std::isnan(actual)) {
      wrong += std::isnan(x) != std::isnan(actual) ? 1 : 0;
      return;
    }
    if (function.keeps_sign && std::signbit(x) != std::signbit(actual)) ++wrong;
    const double distance = ulps_between(actual, truth);
    if (distance > ulps) {
      ulps = distance;
      at = x;
    }
  }
  void add(const Worst &other) {
    wrong += other.wrong;
    if (other.ulps > ulps) {
      ulps = other.ulps;
      at = other.at;
    }
  }
};

// One block of floats, kBlock bit patterns `step` apart from `first` on, through every instruction set.
void measure_block(const Function &function, uint64_t first, uint64_t step, std::vector<Worst> &worst) {
  std::vector<float> x(kBlock), out(kBlock);
  std::vector<double> truth(kBlock);
  for (int64_t i = 0; i < kBlock; ++i) {
    x[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i * step));
    truth[i] = function.truth(x[i]);
  }
  const fovea_tensor x_view = fovea_tensor_contiguous(x.data(), FOVEA_F32, 1, &kBlock);
  const fovea_tensor out_view = fovea_tensor_contiguous(out.data(), FOVEA_F32, 1, &kBlock);
  for (size_t isa = 0; isa < worst.size(); ++isa) {
    if (function.call(shared_context(instruction_sets()[isa], 1), &x_view, &out_view) != FOVEA_OK) ++worst[isa].wrong;
    for (int64_t i = 0; i < kBlock; ++i) worst[isa].add(function, x[i], out[i], truth[i]);
  }
}

// All bit patterns that are multiples of step, on all processors.
std::vector<Worst> measure(const Function &function, uint64_t step) {
  const size_t sets = instruction_sets().size();
  for (const std::string &isa : instruction_sets()) shared_context(isa, 1);  // made before the threads start
  const unsigned thread_count = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::vector<Worst>> parts(thread_count, std::vector<Worst>(sets));
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> threads;
  for (std::vector<Worst> &part : parts) {
    threads.emplace_back([&function, &part, &next, step] {
      const uint64_t stride = kBlock * step;
      for (uint64_t first; (first = next.fetch_add(stride)) < (uint64_t{1} << 32);) {
        measure_block(function, first, step, part);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (size_t t = 1; t < parts.size(); ++t) {
    for (size_t isa = 0; isa < sets; ++isa) parts[0][isa].add(parts[t][isa]);
  }
  return parts[0];
}

void check_all(uint64_t step) {
  for (const Function &function : kFunctions) {
    const std::vector<Worst> worst = measure(function, step);
    for (size_t isa = 0; isa < worst.size(); ++isa) {
      MESSAGE(std::string(function.name) << ", " << instruction_sets()[isa] << ": at most " << worst[isa].ulps
                                         << " ulp, at " << worst[isa].at);
      CHECK(worst[isa].wrong == 0);
      CHECK(worst[isa].ulps <= function.limit);
      CHECK(worst[isa].ulps > 0.4);  // no correctly rounded function of so many arguments has less: the measure works
    }
  }
}

}  // namespace

TEST_SUITE("ulp") {
  TEST_CASE("exp and tanh, every 509th float") { check_all(509); }

  TEST_CASE("the measure itself") {
    CHECK(ulps_between(1.0f, 1.0) == 0);
    CHECK(ulps_between(std::nextafter(1.0f, 2.0f), 1.0) == 1);
    CHECK(ulps_between(std::nextafter(1.0f, 0.0f), 1.0) == 0.5);
    CHECK(ulps_between(0.0f, 0x1p-149) == 1);
    CHECK(ulps_between(0.0f, 1e-300) < 1e-6);
    CHECK(ulps_between(kInfinity, 0x1.fffffep127) == 1);
    CHECK(ulps_between(kInfinity, 1e300) == 0);
    CHECK(ulps_between(0x1.fffffep127f, 1e300) == 1);
  }
}

TEST_SUITE("exhaustive") {
  TEST_CASE("exp and tanh, every float") { check_all(1); }
}
