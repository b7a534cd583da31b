// Registers of 64-bit lanes of which the lower halves count; the upper halves may hold anything. In xsimd 13 there is
// no 32 x 32 -> 64 bit product (its product of 64-bit lanes is of all 64 bits, many instructions before AVX-512).
//
// multiply_low_halves: the product of the lower halves, 64 bits.
// xor_three: exclusive or, one instruction with AVX-512.
// join_low_halves: the lower halves of both in turn: (even 0, odd 0, even 1, odd 1, ...).
#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX512F__)

inline __attribute__((always_inline)) __m512i multiply_low_halves(__m512i a, __m512i b) {
  return _mm512_mul_epu32(a, b);
}
inline __attribute__((always_inline)) __m512i xor_three(__m512i a, __m512i b, __m512i c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}
inline __attribute__((always_inline)) __m512i join_low_halves(__m512i even, __m512i odd) {
  return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CCAA);
}

#elif defined(__AVX2__)

inline __attribute__((always_inline)) __m256i multiply_low_halves(__m256i a, __m256i b) {
  return _mm256_mul_epu32(a, b);
}
inline __attribute__((always_inline)) __m256i xor_three(__m256i a, __m256i b, __m256i c) {
  return _mm256_xor_si256(a, _mm256_xor_si256(b, c));
}
inline __attribute__((always_inline)) __m256i join_low_halves(__m256i even, __m256i odd) {
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

#elif defined(__aarch64__)

inline __attribute__((always_inline)) uint64x2_t multiply_low_halves(uint64x2_t a, uint64x2_t b) {
  return vmull_u32(vmovn_u64(a), vmovn_u64(b));
}
inline __attribute__((always_inline)) uint64x2_t xor_three(uint64x2_t a, uint64x2_t b, uint64x2_t c) {
  return veorq_u64(a, veorq_u64(b, c));
}
inline __attribute__((always_inline)) uint32x4_t join_low_halves(uint64x2_t even, uint64x2_t odd) {
  return vtrn1q_u32(vreinterpretq_u32_u64(even), vreinterpretq_u32_u64(odd));
}

#else

inline __attribute__((always_inline)) __m128i multiply_low_halves(__m128i a, __m128i b) { return _mm_mul_epu32(a, b); }
inline __attribute__((always_inline)) __m128i xor_three(__m128i a, __m128i b, __m128i c) {
  return _mm_xor_si128(a, _mm_xor_si128(b, c));
}
inline __attribute__((always_inline)) __m128i join_low_halves(__m128i even, __m128i odd) {
  const __m128 low = _mm_shuffle_ps(_mm_castsi128_ps(even), _mm_castsi128_ps(odd), _MM_SHUFFLE(2, 0, 2, 0));
  return _mm_shuffle_epi32(_mm_castps_si128(low), _MM_SHUFFLE(3, 1, 2, 0));
}

#endif

}  // namespace
}  // namespace fovea::FOVEA_ISA
