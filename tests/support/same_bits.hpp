// Whether two results are the same, bit by bit. A NaN is the same as itself, 0 is not the same as -0.
#pragma once

#include <cstring>
#include <vector>

#include "tensor.hpp"

namespace testing {

inline bool same_bits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline bool same_bits(const Tensor<float> &a, const Tensor<float> &b) { return same_bits(a.dense(), b.dense()); }

}  // namespace testing
