// The sums of the lanes of 16 registers, in order in one register: a tree of 15 steps of two shuffles and an addition.
// With AVX-512, xsimd 13's haddp returns them in another order (that of AVX2 and SSE is right, and no better than a
// transpose). And likewise the largest lanes, or whatever else `both` makes of two registers.
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

inline __attribute__((always_inline)) __m512d as_pairs(__m512 value) { return _mm512_castps_pd(value); }

// Four registers: each quarter of the result holds what that quarter of each comes to.
template <class Both>
inline __attribute__((always_inline)) __m512 quarters_together(const __m512 *rows, const Both &both) {
  const __m512 first = both(_mm512_unpacklo_ps(rows[0], rows[1]), _mm512_unpackhi_ps(rows[0], rows[1]));
  const __m512 second = both(_mm512_unpacklo_ps(rows[2], rows[3]), _mm512_unpackhi_ps(rows[2], rows[3]));
  return both(_mm512_castpd_ps(_mm512_unpacklo_pd(as_pairs(first), as_pairs(second))),
              _mm512_castpd_ps(_mm512_unpackhi_pd(as_pairs(first), as_pairs(second))));
}

template <class Both>
inline __attribute__((always_inline)) __m512 row_tree_16x16(const __m512 *rows, const Both &both) {
  // Neighbouring quarters of a, then those of b.
  const auto neighbours = [&](__m512 a, __m512 b) __attribute__((always_inline)) {
    return both(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  return neighbours(neighbours(quarters_together(rows, both), quarters_together(rows + 4, both)),
                    neighbours(quarters_together(rows + 8, both), quarters_together(rows + 12, both)));
}

inline __attribute__((always_inline)) __m512 add_registers(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }

inline __attribute__((always_inline)) __m512 sums_of_quarters(const __m512 *rows) {
  return quarters_together(rows, add_registers);
}
inline __attribute__((always_inline)) __m512 row_sums_16x16(const __m512 *rows) {
  return row_tree_16x16(rows, add_registers);
}

// The largest as whole numbers.
inline __attribute__((always_inline)) __m512i row_maxima_16x16(const __m512 *rows) {
  return _mm512_castps_si512(row_tree_16x16(
      rows, [](__m512 a, __m512 b) __attribute__((always_inline)) {
        return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
      }));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
