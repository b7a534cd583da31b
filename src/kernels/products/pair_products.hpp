// The terms of a sum over pairs of bfloat16, in place of products: a 32-bit lane, or element, holds two neighbours.
#pragma once

#include "beyond_xsimd/bfloat16_pairs.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct PairProducts {
  FOVEA_INLINE static Float add(const Float &a, const Float &b, const Float &sum) {
    return Float(add_pair_products(sum.data, a.data, b.data));
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
