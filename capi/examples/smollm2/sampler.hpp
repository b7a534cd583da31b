// Chooses the next token from logits: the likeliest, or by chance among the likeliest ones.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace smollm2 {

struct SamplerOptions {
  float temperature = 0;  // 0: the likeliest token
  float top_p = 0.95f;    // chosen among the fewest tokens that are this likely together (Holtzman et al. 2020)
  std::uint64_t seed = 1;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions &options) : options_(options), random_(options.seed) {}

  std::int32_t operator()(std::span<const float> logits);

 private:
  SamplerOptions options_;
  std::mt19937_64 random_;  // the standard fixes its numbers, so a seed gives the same text everywhere
  std::vector<std::int32_t> order_;
  std::vector<float> weights_;
};

}  // namespace smollm2
