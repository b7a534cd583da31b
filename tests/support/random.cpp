// The numbers that random.hpp promises: made here, where they are optimised.
#include "support/random.hpp"

namespace testing {

float Random::normal() { return normal_(engine_); }

float Random::uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }

bool Random::chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }

int64_t Random::integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(engine_);
}

}  // namespace testing
