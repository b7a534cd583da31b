// The terms of sums over pairs of bfloat16, where a 32-bit lane, or element, holds two neighbours.
#pragma once

#include "beyond_xsimd/bfloat16_pairs.hpp"
#include "kernels/products/microkernel.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct PairProducts : WholeElements {
  FOVEA_INLINE static Float add(const Float &a, const Float &b, const Float &sum) {
    return Float(add_pair_products(sum.data, a.data, b.data));
  }
};

// First of the former neighbours, then of the latter, as the floats they are: no difference of the two is a bfloat16.
struct PairDifferences : SquaredDifferences {
  static constexpr int parts = 2;
  template <int half>
  FOVEA_INLINE static Float part(const Float &pairs) {
    return Float(half == 0 ? first_of_pairs(pairs.data) : second_of_pairs(pairs.data));
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
