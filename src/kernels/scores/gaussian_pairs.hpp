// Gaussian score of bfloat16 queries and keys, many rows, by products of pairs (AVX-512-BF16): the scores of
// GaussianManyRows from the sums of DotPairs, whose weighted sum of values it is, too.
//
//   far pairs    products of two bfloat16 are exact in float32, so their sum is as good as float32's
//   near pairs   the squared difference of the floats that a pair's halves are: a shift or a mask for each element read,
//                keys' as they are broadcast, queries' once for the four keys of a block
//   norms        compensated sums over the same floats
//
// Bound: for far pairs DotPairs's; for near ones 2 instructions for each feature, and for a block of 4 keys and 2
// registers of rows 12 to widen a pair of features beside those 32.
//
// Products that are subnormal, or of subnormal numbers, and sums that are count as 0. Near the origin that may be all
// of a score, and sigma may be as small. What is lost is less than 2^-125 D + 2^-126 sqrt(2 D (|q|^2 + |k|^2)): beside
// a score below -2^-80 and below -(|q|^2 + |k|^2) / 4 less than 2^-34 of it. All other pairs are near.
#pragma once

#include "kernels/scores/dot_pairs.hpp"
#include "kernels/scores/gaussian.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct PairPoints : DotPairs {
  using Product = PairProducts;
  using Difference = PairDifferences;
  // Where `quarter` is NaN, so is the score, which then is below neither.
  FOVEA_INLINE static Float least_near(const Float &quarter) { return xsimd::min(quarter, splat(-0x1p-80f)); }
};

using GaussianPairs = Gaussian<PairPoints>;

}  // namespace
}  // namespace fovea::FOVEA_ISA
