// Signed numbers of 8 bits, and unsigned ones of 4, as registers of float32, which is exact, and back. Nothing past
// `count` is touched.
//
//   load_bytes(from), load_first_bytes(from, count)    a register's worth, or the first of one and then zeros
//   store_first_bytes(to, floats, count)               floats within [-127, 127], rounded to nearest, ties to even
//   store_four_as_bytes(to, floats)                    so four registers
//   store_even_odd_as_bytes(to, floats)                so two pairs of registers, of even elements and of odd ones (AVX2)
//   load_fours(from, low, high)                        a register's worth of bytes: their low four bits, and their high ones
//   store_fours(to, low, high)                         floats within [0, 15], rounded to nearest, ties to even
#pragma once

#include "beyond_xsimd/half_floats.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#define FOVEA_BYTES inline __attribute__((always_inline))

#if defined(__AVX512F__)

FOVEA_BYTES Floats load_bytes(const int8_t *from) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))));
}
FOVEA_BYTES Floats load_first_bytes(const int8_t *from, int64_t count) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first_halves(count), from)));
}
// Whole registers without a mask: some processors take long for narrowing stores with one.
FOVEA_BYTES void store_first_bytes(int8_t *to, Floats floats, int64_t count) {
  const __m128i bytes = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(floats));
  if (count == 16) return _mm_storeu_si128(reinterpret_cast<__m128i *>(to), bytes);
  _mm_mask_storeu_epi8(to, first_halves(count), bytes);
}
FOVEA_BYTES void store_four_as_bytes(int8_t *to, const Floats *floats) {
  for (int i = 0; i < 4; ++i) store_first_bytes(to + 16 * i, floats[i], 16);
}
FOVEA_BYTES void load_fours(const uint8_t *from, Floats *low, Floats *high) {
  const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
  *low = _mm512_cvtepi32_ps(_mm512_and_si512(bytes, _mm512_set1_epi32(15)));
  *high = _mm512_cvtepi32_ps(_mm512_srli_epi32(bytes, 4));
}
FOVEA_BYTES void store_fours(uint8_t *to, Floats low, Floats high) {
  const __m512i both = _mm512_or_si512(_mm512_cvtps_epi32(low), _mm512_slli_epi32(_mm512_cvtps_epi32(high), 4));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(both));
}

#elif defined(__AVX2__)

FOVEA_BYTES Floats load_bytes(const int8_t *from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from))));
}
FOVEA_BYTES Floats load_first_bytes(const int8_t *from, int64_t count) {
  int8_t buffer[8] = {};
  memcpy(buffer, from, static_cast<size_t>(count));
  return load_bytes(buffer);
}
FOVEA_BYTES void store_first_bytes(int8_t *to, Floats floats, int64_t count) {
  const __m256i numbers = _mm256_cvtps_epi32(floats);
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
  int8_t buffer[8];
  _mm_storel_epi64(reinterpret_cast<__m128i *>(buffer), _mm_packs_epi16(halves, halves));
  memcpy(to, buffer, static_cast<size_t>(count));
}
FOVEA_BYTES void store_four_as_bytes(int8_t *to, const Floats *floats) {
  const __m256i first = _mm256_packs_epi32(_mm256_cvtps_epi32(floats[0]), _mm256_cvtps_epi32(floats[1]));
  const __m256i last = _mm256_packs_epi32(_mm256_cvtps_epi32(floats[2]), _mm256_cvtps_epi32(floats[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packing stays within halves of registers
  const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, last), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), bytes);
}
FOVEA_BYTES __m256i words_in_order(Floats even, Floats odd) {
  return _mm256_blend_epi16(_mm256_cvtps_epi32(even), _mm256_slli_epi32(_mm256_cvtps_epi32(odd), 16), 0xaa);
}
FOVEA_BYTES void store_even_odd_as_bytes(int8_t *to, const Floats *floats) {
  const __m256i first = words_in_order(floats[0], floats[1]), last = words_in_order(floats[2], floats[3]);
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(first, last), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), bytes);
}
FOVEA_BYTES void load_fours(const uint8_t *from, Floats *low, Floats *high) {
  const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(from)));
  *low = _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15)));
  *high = _mm256_cvtepi32_ps(_mm256_srli_epi32(bytes, 4));
}
FOVEA_BYTES void store_fours(uint8_t *to, Floats low, Floats high) {
  const __m256i both = _mm256_or_si256(_mm256_cvtps_epi32(low), _mm256_slli_epi32(_mm256_cvtps_epi32(high), 4));
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i *>(to), _mm_packus_epi16(halves, halves));
}

#elif defined(__aarch64__)

FOVEA_BYTES Floats load_first_bytes(const int8_t *from, int64_t count) {
  int8_t buffer[8] = {};
  memcpy(buffer, from, static_cast<size_t>(count));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(buffer)))));
}
FOVEA_BYTES Floats load_bytes(const int8_t *from) { return load_first_bytes(from, 4); }
FOVEA_BYTES void store_first_bytes(int8_t *to, Floats floats, int64_t count) {
  const int16x4_t halves = vqmovn_s32(vcvtnq_s32_f32(floats));
  int8_t buffer[8];
  vst1_s8(buffer, vqmovn_s16(vcombine_s16(halves, halves)));
  memcpy(to, buffer, static_cast<size_t>(count));
}
FOVEA_BYTES void store_four_as_bytes(int8_t *to, const Floats *floats) {
  int16x4_t halves[4];
  for (int i = 0; i < 4; ++i) halves[i] = vqmovn_s32(vcvtnq_s32_f32(floats[i]));
  const int8x8_t first = vqmovn_s16(vcombine_s16(halves[0], halves[1]));
  vst1q_s8(to, vcombine_s8(first, vqmovn_s16(vcombine_s16(halves[2], halves[3]))));
}
FOVEA_BYTES void load_fours(const uint8_t *from, Floats *low, Floats *high) {
  uint8_t buffer[8] = {};
  memcpy(buffer, from, 4);
  const uint32x4_t bytes = vmovl_u16(vget_low_u16(vmovl_u8(vld1_u8(buffer))));
  *low = vcvtq_f32_u32(vandq_u32(bytes, vdupq_n_u32(15)));
  *high = vcvtq_f32_u32(vshrq_n_u32(bytes, 4));
}
FOVEA_BYTES void store_fours(uint8_t *to, Floats low, Floats high) {
  const uint16x4_t halves = vmovn_u32(vorrq_u32(vcvtnq_u32_f32(low), vshlq_n_u32(vcvtnq_u32_f32(high), 4)));
  uint8_t buffer[8];
  vst1_u8(buffer, vmovn_u16(vcombine_u16(halves, halves)));
  memcpy(to, buffer, 4);
}

#else

FOVEA_BYTES Floats load_first_bytes(const int8_t *from, int64_t count) {
  int32_t buffer = 0;
  memcpy(&buffer, from, static_cast<size_t>(count));
  const __m128i bytes = _mm_cvtsi32_si128(buffer);
  const __m128i halves = _mm_unpacklo_epi8(bytes, bytes);
  return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(halves, halves), 24));
}
FOVEA_BYTES Floats load_bytes(const int8_t *from) { return load_first_bytes(from, 4); }
FOVEA_BYTES void store_first_bytes(int8_t *to, Floats floats, int64_t count) {
  const __m128i numbers = _mm_cvtps_epi32(floats);
  const __m128i halves = _mm_packs_epi32(numbers, numbers);
  const int32_t buffer = _mm_cvtsi128_si32(_mm_packs_epi16(halves, halves));
  memcpy(to, &buffer, static_cast<size_t>(count));
}
FOVEA_BYTES void store_four_as_bytes(int8_t *to, const Floats *floats) {
  const __m128i first = _mm_packs_epi32(_mm_cvtps_epi32(floats[0]), _mm_cvtps_epi32(floats[1]));
  const __m128i last = _mm_packs_epi32(_mm_cvtps_epi32(floats[2]), _mm_cvtps_epi32(floats[3]));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm_packs_epi16(first, last));
}
FOVEA_BYTES void load_fours(const uint8_t *from, Floats *low, Floats *high) {
  int32_t buffer;
  memcpy(&buffer, from, sizeof buffer);
  const __m128i none = _mm_setzero_si128();
  const __m128i bytes = _mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(buffer), none), none);
  *low = _mm_cvtepi32_ps(_mm_and_si128(bytes, _mm_set1_epi32(15)));
  *high = _mm_cvtepi32_ps(_mm_srli_epi32(bytes, 4));
}
FOVEA_BYTES void store_fours(uint8_t *to, Floats low, Floats high) {
  const __m128i both = _mm_or_si128(_mm_cvtps_epi32(low), _mm_slli_epi32(_mm_cvtps_epi32(high), 4));
  const __m128i halves = _mm_packs_epi32(both, both);
  const int32_t buffer = _mm_cvtsi128_si32(_mm_packus_epi16(halves, halves));
  memcpy(to, &buffer, sizeof buffer);
}

#endif

#undef FOVEA_BYTES

}  // namespace
}  // namespace fovea::FOVEA_ISA
