// The sums of the lanes of 16 registers, in order in one register: a tree of 15 steps of two shuffles and an addition.
// With AVX-512, xsimd 13's haddp returns them in another order (that of AVX2 and SSE is right, and no better than a
// transpose).
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

inline __attribute__((always_inline)) __m512d as_pairs(__m512 value) { return _mm512_castps_pd(value); }

// Four registers: each quarter of the result holds the sums of that quarter of each.
inline __attribute__((always_inline)) __m512 sums_of_quarters(const __m512 *rows) {
  const __m512 first = _mm512_add_ps(_mm512_unpacklo_ps(rows[0], rows[1]), _mm512_unpackhi_ps(rows[0], rows[1]));
  const __m512 second = _mm512_add_ps(_mm512_unpacklo_ps(rows[2], rows[3]), _mm512_unpackhi_ps(rows[2], rows[3]));
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(as_pairs(first), as_pairs(second))),
                       _mm512_castpd_ps(_mm512_unpackhi_pd(as_pairs(first), as_pairs(second))));
}

// Quarters of a and b added in pairs of neighbours: those of a, then those of b.
inline __attribute__((always_inline)) __m512 add_quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

inline __attribute__((always_inline)) __m512 row_sums_16x16(const __m512 *rows) {
  return add_quarters(add_quarters(sums_of_quarters(rows), sums_of_quarters(rows + 4)),
                      add_quarters(sums_of_quarters(rows + 8), sums_of_quarters(rows + 12)));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
