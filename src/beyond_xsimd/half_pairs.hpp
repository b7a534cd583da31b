// Widens and rounds two registers of 16-bit numbers at a time, with AVX2 or AVX-512, where any lane may have any number
// and every NaN's lower half is zero (Nans::short_ones):
//
//   widen_even_odd(halves, even, odd)     the elements of even index, and of odd: a shift and a mask, no shuffle
//   join_even_odd(even, odd)              back, to the nearest; a float32 halfway between two becomes the larger in magnitude
//   join_even_odd_exactly(even, odd)      the same, but of two as near the even one
//   load_first_two_halves(from, count, rest), store_first_two_halves   nothing past count is touched; loaded are `rest`
//   stream_two_halves(to, halves)         past the caches; `to` is a multiple of the register's size
//   widen_two_float16, narrow_two_float16 the same of binary16, in order
//   larger_magnitudes(most, halves)       the larger ones without their signs, NaN above all (AVX2)
//
// Ties: what is made of logarithms and roots is halfway between two of these numbers only by its own rounding.
#pragma once

#include "beyond_xsimd/half_floats.hpp"

#if defined(__AVX2__)
namespace fovea::FOVEA_ISA {
namespace {

#define FOVEA_HALVES inline __attribute__((always_inline))

#if defined(__AVX512F__)

FOVEA_HALVES void widen_even_odd(TwoHalves halves, Floats *even, Floats *odd) {
  *even = _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
  *odd = _mm512_castsi512_ps(_mm512_and_si512(halves, _mm512_set1_epi32(-0x10000)));
}
FOVEA_HALVES TwoHalves join_upper_halves(__m512i even, __m512i odd) {
  const __m512i upper_bytes = _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302);
  return _mm512_mask_shuffle_epi8(odd, 0x3333333333333333, even, upper_bytes);
}
FOVEA_HALVES TwoHalves join_even_odd(Floats even, Floats odd) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  return join_upper_halves(_mm512_add_epi32(_mm512_castps_si512(even), half),
                           _mm512_add_epi32(_mm512_castps_si512(odd), half));
}
FOVEA_HALVES __m512i with_upper_half_rounded(Floats value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(bits, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
}
FOVEA_HALVES TwoHalves join_even_odd_exactly(Floats even, Floats odd) {
  return join_upper_halves(with_upper_half_rounded(even), with_upper_half_rounded(odd));
}
FOVEA_HALVES void stream_two_halves(uint16_t *to, TwoHalves halves) {
  _mm512_stream_si512(reinterpret_cast<__m512i *>(to), halves);
}
FOVEA_HALVES __mmask32 first_of_two(int64_t count) { return _bzhi_u32(0xffffffff, static_cast<uint32_t>(count)); }
FOVEA_HALVES TwoHalves load_first_two_halves(const uint16_t *from, int64_t count, uint16_t rest) {
  return _mm512_mask_loadu_epi16(_mm512_set1_epi16(static_cast<int16_t>(rest)), first_of_two(count), from);
}
FOVEA_HALVES void widen_two_float16(TwoHalves halves, Floats *first, Floats *second) {
  *first = widen_float16(_mm512_castsi512_si256(halves));
  *second = widen_float16(_mm512_extracti64x4_epi64(halves, 1));
}
FOVEA_HALVES TwoHalves narrow_two_float16(Floats first, Floats second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(narrow_float16(first)), narrow_float16(second), 1);
}

#else

FOVEA_HALVES TwoHalves join_even_odd(Floats even, Floats odd) {
  const __m256i half = _mm256_set1_epi32(0x8000);
  return _mm256_blend_epi16(_mm256_srli_epi32(_mm256_add_epi32(_mm256_castps_si256(even), half), 16),
                            _mm256_add_epi32(_mm256_castps_si256(odd), half), 0xaa);
}
FOVEA_HALVES TwoHalves join_even_odd_exactly(Floats even, Floats odd) {
  return narrow_even_odd<Nans::short_ones>(even, odd);
}
FOVEA_HALVES void stream_two_halves(uint16_t *to, TwoHalves halves) {
  _mm256_stream_si256(reinterpret_cast<__m256i *>(to), halves);
}
FOVEA_HALVES void store_first_two_halves(uint16_t *to, TwoHalves halves, int64_t count) {
  uint16_t buffer[2 * halves_count];
  store_two_halves(buffer, halves);
  memcpy(to, buffer, static_cast<size_t>(count) * sizeof(uint16_t));
}
FOVEA_HALVES TwoHalves larger_magnitudes(TwoHalves most, TwoHalves halves) {
  return _mm256_max_epu16(most, _mm256_and_si256(halves, _mm256_set1_epi16(0x7fff)));
}
FOVEA_HALVES void widen_two_float16(TwoHalves halves, Floats *first, Floats *second) {
  *first = widen_float16(_mm256_castsi256_si128(halves));
  *second = widen_float16(_mm256_extracti128_si256(halves, 1));
}
FOVEA_HALVES TwoHalves narrow_two_float16(Floats first, Floats second) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(narrow_float16(first)), narrow_float16(second), 1);
}
FOVEA_HALVES TwoHalves load_first_two_halves(const uint16_t *from, int64_t count, uint16_t rest) {
  const Halves first = load_first_halves(from, count < halves_count ? count : halves_count);
  const Halves second = load_first_halves(from + halves_count, count < halves_count ? 0 : count - halves_count);
  const __m256i index = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m256i known = _mm256_cmpgt_epi16(_mm256_set1_epi16(static_cast<int16_t>(count)), index);
  return _mm256_blendv_epi8(_mm256_set1_epi16(static_cast<int16_t>(rest)),
                            _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1), known);
}

#endif

#undef FOVEA_HALVES

}  // namespace
}  // namespace fovea::FOVEA_ISA
#endif
