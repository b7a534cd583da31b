// The sums of the lanes of four registers of more than four lanes: to[i] = sum of rows[i].
#pragma once

#include <immintrin.h>

#include <xsimd/xsimd.hpp>

#if defined(__AVX512F__)
#include "beyond_xsimd/row_sums_avx512.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

inline __attribute__((always_inline)) void sum_four(const xsimd::batch<float, FOVEA_ARCH> *rows, float *to) {
#if defined(__AVX512F__)
  const __m512 registers[] = {rows[0], rows[1], rows[2], rows[3]};
  const __m512 quarters = sums_of_quarters(registers);
  const __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm512_extractf32x8_ps(quarters, 1));
#else
  const __m256 first = _mm256_add_ps(_mm256_unpacklo_ps(rows[0], rows[1]), _mm256_unpackhi_ps(rows[0], rows[1]));
  const __m256 second = _mm256_add_ps(_mm256_unpacklo_ps(rows[2], rows[3]), _mm256_unpackhi_ps(rows[2], rows[3]));
  const __m256 halves = _mm256_add_ps(_mm256_shuffle_ps(first, second, 0x44), _mm256_shuffle_ps(first, second, 0xee));
#endif
  _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1)));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
