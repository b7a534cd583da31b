// Products of numbers of 16 bits with numbers of 8, added in pairs to sums of 32 bits: on the left a word holds two
// numbers of 16 bits, and two signed bytes on the right meet it.
//
//   load_right(from)                a register's worth: two bytes for each word
//   add_pair_products(sum, a, b)    sum + a's numbers times b's, both of a word
//   store_halves(to, floats, count) the first floats, within [-32767, 32767], as 16 bits, rounded to nearest, ties to even
#pragma once

#include "beyond_xsimd/half_floats.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#define FOVEA_BYTES inline __attribute__((always_inline))

// As sums of whole numbers may be added in any order, GCC would add products of several words before it adds them to
// the sum, for which there are no registers.
template <class Register>
FOVEA_BYTES Register in_this_order(Register sum) {
#if !defined(__aarch64__)
  __asm__("" : "+v"(sum));
#endif
  return sum;
}

#if defined(__AVX512F__)

FOVEA_BYTES __m512i load_right(const char *from) {
  return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)));
}
FOVEA_BYTES __m512i add_pair_products(__m512i sum, __m512i a, __m512i b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpwssd_epi32(sum, a, b);
#else
  return in_this_order(_mm512_add_epi32(sum, _mm512_madd_epi16(a, b)));
#endif
}
FOVEA_BYTES void store_halves(int16_t *to, Floats floats, int64_t count) {
  const __m256i halves = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(floats));
  if (count == 16) return _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), halves);
  _mm256_mask_storeu_epi16(to, first_halves(count), halves);
}

#elif defined(__AVX2__)

FOVEA_BYTES __m256i load_right(const char *from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}
FOVEA_BYTES __m256i add_pair_products(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVXVNNI__)
  return _mm256_dpwssd_avx_epi32(sum, a, b);
#else
  return in_this_order(_mm256_add_epi32(sum, _mm256_madd_epi16(a, b)));
#endif
}
FOVEA_BYTES void store_halves(int16_t *to, Floats floats, int64_t count) {
  const __m256i numbers = _mm256_cvtps_epi32(floats);
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
  if (count == 8) return _mm_storeu_si128(reinterpret_cast<__m128i *>(to), halves);
  int16_t buffer[8];
  _mm_storeu_si128(reinterpret_cast<__m128i *>(buffer), halves);
  memcpy(to, buffer, static_cast<size_t>(count) * sizeof *to);
}

#elif defined(__aarch64__)

FOVEA_BYTES int32x4_t load_right(const char *from) {
  return vreinterpretq_s32_s16(vmovl_s8(vld1_s8(reinterpret_cast<const int8_t *>(from))));
}
FOVEA_BYTES int32x4_t add_pair_products(int32x4_t sum, int32x4_t a, int32x4_t b) {
  const int16x8_t left = vreinterpretq_s16_s32(a), right = vreinterpretq_s16_s32(b);
  const int32x4_t low = vmull_s16(vget_low_s16(left), vget_low_s16(right));
  return vaddq_s32(sum, vpaddq_s32(low, vmull_high_s16(left, right)));
}
FOVEA_BYTES void store_halves(int16_t *to, Floats floats, int64_t count) {
  int16_t buffer[4];
  vst1_s16(buffer, vqmovn_s32(vcvtnq_s32_f32(floats)));
  memcpy(to, buffer, static_cast<size_t>(count) * sizeof *to);
}

#else

FOVEA_BYTES __m128i load_right(const char *from) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from));
  return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
FOVEA_BYTES __m128i add_pair_products(__m128i sum, __m128i a, __m128i b) {
  return in_this_order(_mm_add_epi32(sum, _mm_madd_epi16(a, b)));
}
FOVEA_BYTES void store_halves(int16_t *to, Floats floats, int64_t count) {
  const __m128i numbers = _mm_cvtps_epi32(floats);
  int16_t buffer[8];
  _mm_storeu_si128(reinterpret_cast<__m128i *>(buffer), _mm_packs_epi32(numbers, numbers));
  memcpy(to, buffer, static_cast<size_t>(count) * sizeof *to);
}

#endif

#undef FOVEA_BYTES

}  // namespace
}  // namespace fovea::FOVEA_ISA
