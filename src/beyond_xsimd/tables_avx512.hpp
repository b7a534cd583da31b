// AVX-512's instructions for functions computed by table: xsimd 13 has none of them for float32.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace fovea::FOVEA_ISA {
namespace {

// table[the lowest four bits of index].
inline __attribute__((always_inline)) __m512 pick_of_16(__m512i index, const float (&table)[16]) {
  return _mm512_permutexvar_ps(index, _mm512_load_ps(table));
}

// value * 2^floor(exponent), rounded once: infinite and denormal results too. NaN stays NaN.
inline __attribute__((always_inline)) __m512 times_power_of_2(__m512 value, __m512 exponent) {
  return _mm512_scalef_ps(value, exponent);
}

// value - floor(value); 0 for an infinite one, NaN stays NaN.
inline __attribute__((always_inline)) __m512 fraction_above_floor(__m512 value) {
  return _mm512_reduce_ps(value, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

// value with a magnitude of at most `bound`; `bound` for NaN.
inline __attribute__((always_inline)) __m512 bounded_magnitude(__m512 value, float bound) {
  constexpr int smaller_magnitude = 2;  // with the sign of the first
  return _mm512_range_ps(value, _mm512_set1_ps(bound), smaller_magnitude);
}

// magnitude | the sign of `sign`.
inline __attribute__((always_inline)) __m512 with_sign_of(__m512 magnitude, __m512 sign) {
  constexpr int a_or_b_and_c = 0xf8;
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(magnitude), _mm512_castps_si512(sign),
                                                       _mm512_set1_epi32(INT32_MIN), a_or_b_and_c));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
