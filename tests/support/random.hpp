// Seeded random numbers for the tests. Every failure message carries the seed, and FOVEA_TEST_SEED=<seed> replays it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>

namespace testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  float normal();
  float uniform(float low, float high);
  bool chance(double probability);

  // Both ends included.
  int64_t integer(int64_t low, int64_t high);

  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[integer(0, static_cast<int64_t>(choices.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<float> normal_;
};

inline int64_t environment_number(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoll(text, nullptr, 10) : otherwise;
}

// The seed of the first random case; case n uses base_seed() + n.
inline uint64_t base_seed() { return static_cast<uint64_t>(environment_number("FOVEA_TEST_SEED", 20261)); }

// How many random cases a test runs: FOVEA_TEST_CASES, or the number the test asks for.
inline int64_t case_count(int64_t otherwise) { return environment_number("FOVEA_TEST_CASES", otherwise); }

}  // namespace testing
