// The sums of the lanes of 8 registers, in order in one register, in 21 instructions where a transpose and additions
// take 31. Lanes are added in the order of that: each half's lane to the other's, then neighbours, then pairs of them.
// And likewise the largest lanes, or whatever else `both` makes of two registers.
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

template <class Both>
inline __attribute__((always_inline)) __m256 row_tree_8x8(const __m256 *rows, const Both &both) {
  // Neighbours of a, then those of b, in each half.
  const auto neighbours = [&](__m256 a, __m256 b) __attribute__((always_inline)) {
    return both(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
  };
  // a's halves, then those of b.
  const auto halves = [&](__m256 a, __m256 b) __attribute__((always_inline)) {
    return both(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
  };
  const __m256 first = neighbours(halves(rows[0], rows[4]), halves(rows[1], rows[5]));
  const __m256 second = neighbours(halves(rows[2], rows[6]), halves(rows[3], rows[7]));
  return neighbours(first, second);
}

inline __attribute__((always_inline)) __m256 row_sums_8x8(const __m256 *rows) {
  return row_tree_8x8(
      rows, [](__m256 a, __m256 b) __attribute__((always_inline)) { return _mm256_add_ps(a, b); });
}

// The largest as whole numbers.
inline __attribute__((always_inline)) __m256i row_maxima_8x8(const __m256 *rows) {
  return _mm256_castps_si256(row_tree_8x8(
      rows, [](__m256 a, __m256 b) __attribute__((always_inline)) {
        return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
      }));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
