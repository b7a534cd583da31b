// SPDX-License-Identifier: Apache-2.0
#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace smollm2 {

std::int32_t Sampler::operator()(std::span<const float> logits) {
  const auto likeliest = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  if (options_.temperature <= 0) return likeliest;
  const float largest = logits[static_cast<std::size_t>(likeliest)];
  weights_.resize(logits.size());
  float total = 0;
  for (std::size_t n = 0; n < logits.size(); ++n) {
    total += weights_[n] = std::exp((logits[n] - largest) / options_.temperature);
  }
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, std::greater(),
                    [&](std::int32_t token) { return weights_[static_cast<std::size_t>(token)]; });
  float kept = 0;
  std::size_t count = 0;
  while (count < order_.size() && kept < options_.top_p * total)
    kept += weights_[static_cast<std::size_t>(order_[count++])];
  // A number made of 53 bits, as the standard's distributions differ from one library to the next.
  auto left = static_cast<float>(static_cast<double>(random_() >> 11) * 0x1p-53) * kept;
  for (std::size_t n = 0; n < count; ++n) {
    left -= weights_[static_cast<std::size_t>(order_[n])];
    if (left < 0) return order_[n];
  }
  return likeliest;
}

}  // namespace smollm2
