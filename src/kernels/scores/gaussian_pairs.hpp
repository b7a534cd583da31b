// Gaussian score of bfloat16 queries and keys, many rows, by products of pairs (AVX-512-BF16): the scores of GaussianManyRows
// from the sums of DotPairs, whose weighted sum of values it is, too.
//
//   far pairs    products of two bfloat16 are exact in float32, so their sum is as good as float32's
//   near pairs   the squared difference of the floats that a pair's halves are: a shift or a mask for each element read,
//                keys' as they are broadcast, queries' once for all keys of a block
//   norms        compensated sums over the same floats
//
// Bound: DotPairs's for far pairs; for near ones 2 instructions a feature, and (1 / keys + 1 / rows) more of a block's.
//
// Products that are subnormal, or of subnormal numbers, count as 0, which may take all of a score whose points are that near
// the origin, and sigma may be as small as they are. What D features lose is below 2^-126 (D + sqrt(D (|q|^2 + |k|^2))), so
// beside a score below -2^-80 that is a quarter of the sum of squares at least, it is less than 2^-36 of it; all others are
// taken for near.
#pragma once

#include "kernels/scores/dot_pairs.hpp"
#include "kernels/scores/gaussian.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct PairPoints : DotPairs {
  using Product = PairProducts;
  using Difference = PairDifferences;
  // The second one where the first is NaN: no score is below either then.
  FOVEA_INLINE static Float least_near(const Float &quarter) { return xsimd::min(quarter, splat(-0x1p-80f)); }
};

using GaussianPairs = Gaussian<PairPoints>;

}  // namespace
}  // namespace fovea::FOVEA_ISA
