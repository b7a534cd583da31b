// The sums of the lanes of 8 registers, in order in one register, in 21 instructions where a transpose and additions
// take 31. Lanes are added in the order of that: each half's lane to the other's, then neighbours, then pairs of them.
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

// Neighbours added up: those of a, then those of b, in each half.
inline __attribute__((always_inline)) __m256 add_neighbours(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}

// a's halves added up, then those of b.
inline __attribute__((always_inline)) __m256 add_halves(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}

inline __attribute__((always_inline)) __m256 row_sums_8x8(const __m256 *rows) {
  const __m256 first = add_neighbours(add_halves(rows[0], rows[4]), add_halves(rows[1], rows[5]));
  const __m256 second = add_neighbours(add_halves(rows[2], rows[6]), add_halves(rows[3], rows[7]));
  return add_neighbours(first, second);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
