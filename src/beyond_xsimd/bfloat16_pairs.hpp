// Products of pairs of bfloat16 (AVX-512-BF16), which xsimd 13 does not have. A 32-bit lane holds two neighbours of a sum,
// the first in the lower half; each instruction adds both products to a float32 lane. Inputs and sums that are subnormal
// count as 0, sums are rounded to nearest, ties to even (Intel's architecture manual, VDPBF16PS).
//
// Making pairs: of two registers of floats, each rounded to the nearest bfloat16, ties away from 0, which differs from ties
// to even once in 2^16; NaN stays one unless its upper bits are 0.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace fovea::FOVEA_ISA {
namespace {

inline __attribute__((always_inline)) __m512 add_pair_products(__m512 sum, __m512 a, __m512 b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

inline __attribute__((always_inline)) __m512 pairs_of(__m512 first, __m512 second) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i low = _mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(first), half), 16);
  const __m512i high = _mm512_add_epi32(_mm512_castps_si512(second), half);
  // The upper halves of `high`, all of `low`.
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(low, high, _mm512_set1_epi32(-0x10000), 0xf8));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
