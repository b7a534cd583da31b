// A matrix product's work, common to matmul and linear layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/cases.hpp"

namespace fovea_bench {

// [M,K] x [K,N].
struct ProductSizes {
  int64_t m, n, k;
};

inline std::string product_name(const ProductSizes &s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}
inline double product_flops(const ProductSizes &s) { return 2.0 * static_cast<double>(s.m * s.n * s.k); }
// With few rows each weight is used only a few times, so reading the weights is the limit.
inline Bound product_bound(const ProductSizes &s) { return s.m <= 16 ? Bound::bytes : Bound::flops; }
// The bytes are those of the weights.
inline Work product_work(const ProductSizes &s, size_t weight_size = sizeof(float)) {
  return {.flops = product_flops(s), .bytes = static_cast<double>(weight_size) * static_cast<double>(s.n * s.k)};
}
inline std::vector<Parameter> product_parameters(const ProductSizes &s) { return {{"m", s.m}, {"n", s.n}, {"k", s.k}}; }

}  // namespace fovea_bench
