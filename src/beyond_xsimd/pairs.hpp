// Two registers of doubles converted to one of floats, and two registers of floats interleaved into two of pairs. In
// xsimd 13 there is no conversion between element types of different sizes, and its zips of AVX-512 registers take
// 16 instructions for these 2.
#pragma once

#include <xsimd/xsimd.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

namespace fovea::FOVEA_ISA {
namespace {

using FloatLanes = xsimd::batch<float, FOVEA_ARCH>;
using IntLanes = xsimd::batch<int32_t, FOVEA_ARCH>;
using DoubleLanes = xsimd::batch<double, FOVEA_ARCH>;

// narrow: the doubles of `low`, then those of `high`, as floats.
// low_words: the low 32 bits of each, likewise.
// interleave: (a0, b0, a1, b1, ...), the first half in `low`, the second in `high`.
// swap_neighbours: (a1, a0, a3, a2, ...).
#if defined(__AVX512F__)

inline __attribute__((always_inline)) FloatLanes narrow(DoubleLanes low, DoubleLanes high) {
  const __m512d joined = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)));
  return _mm512_castpd_ps(_mm512_insertf64x4(joined, _mm256_castps_pd(_mm512_cvtpd_ps(high)), 1));
}
inline __attribute__((always_inline)) IntLanes low_words(DoubleLanes low, DoubleLanes high) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_epi32(_mm512_castpd_si512(low), even, _mm512_castpd_si512(high));
}
inline __attribute__((always_inline)) void interleave(FloatLanes a, FloatLanes b, FloatLanes *low, FloatLanes *high) {
  const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  *low = _mm512_permutex2var_ps(a, first, b);
  *high = _mm512_permutex2var_ps(a, second, b);
}
inline __attribute__((always_inline)) FloatLanes swap_neighbours(FloatLanes a) { return _mm512_permute_ps(a, 0xb1); }

#elif defined(__AVX2__)

inline __attribute__((always_inline)) FloatLanes narrow(DoubleLanes low, DoubleLanes high) {
  return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}
inline __attribute__((always_inline)) IntLanes low_words(DoubleLanes low, DoubleLanes high) {
  const __m256 mixed = _mm256_shuffle_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high), 0x88);
  return _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xd8);
}
inline __attribute__((always_inline)) void interleave(FloatLanes a, FloatLanes b, FloatLanes *low, FloatLanes *high) {
  const __m256 even = _mm256_unpacklo_ps(a, b);
  const __m256 odd = _mm256_unpackhi_ps(a, b);
  *low = _mm256_permute2f128_ps(even, odd, 0x20);
  *high = _mm256_permute2f128_ps(even, odd, 0x31);
}
inline __attribute__((always_inline)) FloatLanes swap_neighbours(FloatLanes a) { return _mm256_permute_ps(a, 0xb1); }

#elif defined(__x86_64__)

inline __attribute__((always_inline)) FloatLanes narrow(DoubleLanes low, DoubleLanes high) {
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
inline __attribute__((always_inline)) IntLanes low_words(DoubleLanes low, DoubleLanes high) {
  return _mm_castps_si128(_mm_shuffle_ps(_mm_castpd_ps(low), _mm_castpd_ps(high), 0x88));
}
inline __attribute__((always_inline)) void interleave(FloatLanes a, FloatLanes b, FloatLanes *low, FloatLanes *high) {
  *low = _mm_unpacklo_ps(a, b);
  *high = _mm_unpackhi_ps(a, b);
}
inline __attribute__((always_inline)) FloatLanes swap_neighbours(FloatLanes a) { return _mm_shuffle_ps(a, a, 0xb1); }

#else

inline __attribute__((always_inline)) FloatLanes narrow(DoubleLanes low, DoubleLanes high) {
  return vcvt_high_f32_f64(vcvt_f32_f64(low), high);
}
inline __attribute__((always_inline)) IntLanes low_words(DoubleLanes low, DoubleLanes high) {
  return vuzp1q_s32(vreinterpretq_s32_f64(low), vreinterpretq_s32_f64(high));
}
inline __attribute__((always_inline)) void interleave(FloatLanes a, FloatLanes b, FloatLanes *low, FloatLanes *high) {
  *low = vzip1q_f32(a, b);
  *high = vzip2q_f32(a, b);
}
inline __attribute__((always_inline)) FloatLanes swap_neighbours(FloatLanes a) { return vrev64q_f32(a); }

#endif

}  // namespace
}  // namespace fovea::FOVEA_ISA
