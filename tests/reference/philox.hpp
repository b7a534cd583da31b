// Dropout's choices, one at a time, from the paper's description of Philox4x32-10.
#pragma once

#include <array>
#include <cstdint>

namespace reference {

std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

struct Dropout {
  float probability = 0;
  uint64_t seed = 0;

  bool operator==(const Dropout &) const = default;
};

// Is the weight of batch entry b, query head h, query i and key j dropped?
bool dropped(const Dropout &dropout, int64_t b, int64_t h, int64_t i, int64_t j);

}  // namespace reference
