// Registers of 16-bit numbers, one for each lane of float32: bfloat16 and IEEE binary16, neither of which xsimd 13
// knows. Widening is exact and keeps subnormal numbers. Narrowing rounds to nearest, ties to even, overflows to
// infinity, keeps subnormal numbers and NaN.
//
//   Halves                                       the register
//   load_halves(from), load_first_halves(from, count), store_halves, store_first_halves   nothing past count is touched
//   widen_bfloat16(halves), widen_float16(halves), narrow_bfloat16(floats), narrow_float16(floats)
//   TwoHalves, load_two_halves, store_two_halves, narrow_two_bfloat16<nans>(a, b)   x86 with AVX2: two registers as one
//   widen_two_bfloat16, store_first_two_halves                                     the same, AVX-512
//
// A bfloat16 is the upper half of a float32: adding half of what is cut off, less one unless the kept part is odd,
// rounds it. That sum may carry a NaN's bits to its sign. It cannot where the lower half of every NaN is zero, and so
// it is in what arithmetic makes of bfloat16 numbers and infinities alone: Nans::short_ones, which saves looking for
// them. SSE2 has no conversion of binary16: its bits, shifted to float32's places, are 2^-112 of their value, subnormal
// ones included.
#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

namespace fovea::FOVEA_ISA {
namespace {

#define FOVEA_HALVES inline __attribute__((always_inline))

enum class Nans { any, short_ones };

#if defined(__AVX512F__)

using Halves = __m256i;
using Floats = __m512;

// Not to be stored by the instruction that makes them: Zen 4 takes 2.7 cycles for that and 1.6 and a store for two.
FOVEA_HALVES Halves in_register(Halves halves) {
  asm("" : "+v"(halves));
  return halves;
}
FOVEA_HALVES __mmask16 first_halves(int64_t count) {
  return static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<uint32_t>(count)));
}
FOVEA_HALVES Halves load_halves(const uint16_t *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}
FOVEA_HALVES Halves load_first_halves(const uint16_t *from, int64_t count) {
  return _mm256_maskz_loadu_epi16(first_halves(count), from);
}
FOVEA_HALVES void store_halves(uint16_t *to, Halves halves) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), halves);
}
FOVEA_HALVES void store_first_halves(uint16_t *to, Halves halves, int64_t count) {
  _mm256_mask_storeu_epi16(to, first_halves(count), halves);
}
// Each half to the upper half of its lane, zeros below.
FOVEA_HALVES Floats widen_bfloat16(Halves halves) {
  const __m512i places = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5, 0, 4, 0,
                                          3, 0, 2, 0, 1, 0, 0, 0);
  return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, places, _mm512_castsi256_si512(halves)));
}
FOVEA_HALVES Floats widen_float16(Halves halves) { return _mm512_cvtph_ps(halves); }

// The upper half of each lane is what is wanted.
template <Nans nans>
FOVEA_HALVES __m512i round_bfloat16(Floats floats) {
  const __m512i bits = _mm512_castps_si512(floats);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i raised = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_mask_add_epi32(raised, odd, raised, _mm512_set1_epi32(1));
  if (nans == Nans::short_ones) return rounded;
  constexpr int quiet_nans_themselves = 0x22;  // for both kinds; 0: what has been made of other numbers
  return _mm512_castps_si512(
      _mm512_fixupimm_ps(_mm512_castsi512_ps(rounded), floats, _mm512_set1_epi32(quiet_nans_themselves), 0));
}
FOVEA_HALVES __m512i upper_half_places() {
  return _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19,
                          17, 15, 13, 11, 9, 7, 5, 3, 1);
}
template <Nans nans = Nans::any>
FOVEA_HALVES Halves narrow_bfloat16(Floats floats) {
  return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper_half_places(), round_bfloat16<nans>(floats)));
}

using TwoHalves = __m512i;

FOVEA_HALVES TwoHalves load_two_halves(const uint16_t *from) { return _mm512_loadu_si512(from); }
// As widen_bfloat16 does each.
FOVEA_HALVES void widen_two_bfloat16(TwoHalves halves, Floats *a, Floats *b) {
  const __m512i places = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5, 0, 4, 0,
                                          3, 0, 2, 0, 1, 0, 0, 0);
  const __m512i others = _mm512_add_epi16(places, _mm512_set1_epi16(16));
  *a = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, places, halves));
  *b = _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, others, halves));
}
FOVEA_HALVES void store_two_halves(uint16_t *to, TwoHalves halves) { _mm512_storeu_si512(to, halves); }
FOVEA_HALVES void store_first_two_halves(uint16_t *to, TwoHalves halves, int64_t count) {
  _mm512_mask_storeu_epi16(to, _bzhi_u32(0xffffffff, static_cast<uint32_t>(count)), halves);
}
template <Nans nans>
FOVEA_HALVES TwoHalves narrow_two_bfloat16(Floats a, Floats b) {
  return _mm512_permutex2var_epi16(round_bfloat16<nans>(a), upper_half_places(), round_bfloat16<nans>(b));
}
FOVEA_HALVES Halves narrow_float16(Floats floats) {
  return in_register(_mm512_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// Neighbouring elements of two rows, 16 of each, as 16 pairs, the first in the lower half.
FOVEA_HALVES __m512i join_rows(Halves first, Halves second) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(first), _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

#elif defined(__aarch64__)

using Halves = uint16x4_t;
using Floats = float32x4_t;

FOVEA_HALVES Halves load_halves(const uint16_t *from) { return vld1_u16(from); }
FOVEA_HALVES Halves load_first_halves(const uint16_t *from, int64_t count) {
  uint16_t buffer[4] = {};
  memcpy(buffer, from, static_cast<size_t>(count) * sizeof(uint16_t));
  return vld1_u16(buffer);
}
FOVEA_HALVES void store_halves(uint16_t *to, Halves halves) { vst1_u16(to, halves); }
FOVEA_HALVES void store_first_halves(uint16_t *to, Halves halves, int64_t count) {
  uint16_t buffer[4];
  vst1_u16(buffer, halves);
  memcpy(to, buffer, static_cast<size_t>(count) * sizeof(uint16_t));
}
FOVEA_HALVES Floats widen_bfloat16(Halves halves) { return vreinterpretq_f32_u32(vshll_n_u16(halves, 16)); }
FOVEA_HALVES Floats widen_float16(Halves halves) { return vcvt_f32_f16(vreinterpret_f16_u16(halves)); }
template <Nans = Nans::any>
FOVEA_HALVES Halves narrow_bfloat16(Floats floats) {
  const uint32x4_t bits = vreinterpretq_u32_f32(floats);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(floats, floats), rounded, quiet), 16);
}
FOVEA_HALVES Halves narrow_float16(Floats floats) { return vreinterpret_u16_f16(vcvt_f16_f32(floats)); }

#else

using Halves = __m128i;

#if defined(__AVX2__)

using Floats = __m256;
constexpr int64_t halves_count = 8;

// As with AVX-512.
FOVEA_HALVES Halves in_register(Halves halves) {
  asm("" : "+x"(halves));
  return halves;
}
FOVEA_HALVES Halves load_halves(const uint16_t *from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
}
FOVEA_HALVES void store_halves(uint16_t *to, Halves halves) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), halves);
}
FOVEA_HALVES Floats widen_bfloat16(Halves halves) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
FOVEA_HALVES Floats widen_float16(Halves halves) { return _mm256_cvtph_ps(halves); }
template <Nans = Nans::any>
FOVEA_HALVES Halves narrow_bfloat16(Floats floats) {
  const __m256i bits = _mm256_castps_si256(floats);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 is_nan = _mm256_cmp_ps(floats, floats, _CMP_UNORD_Q);
  const __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan)), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
}
FOVEA_HALVES Halves narrow_float16(Floats floats) {
  return in_register(_mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

using TwoHalves = __m256i;

FOVEA_HALVES TwoHalves load_two_halves(const uint16_t *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}
FOVEA_HALVES void store_two_halves(uint16_t *to, TwoHalves halves) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), halves);
}
// The upper half of each lane is what is wanted, but for NaNs that are not short.
FOVEA_HALVES __m256i round_numbers(Floats floats) {
  const __m256i bits = _mm256_castps_si256(floats);
  const __m256i odd = _mm256_slli_epi32(bits, 15);  // in the sign
  const __m256 half = _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_set1_epi32(0x7fff)),
                                       _mm256_castsi256_ps(_mm256_set1_epi32(0x8000)), _mm256_castsi256_ps(odd));
  return _mm256_add_epi32(bits, _mm256_castps_si256(half));
}
FOVEA_HALVES __m256i quiet_nans_of(Floats floats, __m256i rounded) {
  const __m256i quiet = _mm256_or_si256(_mm256_castps_si256(floats), _mm256_set1_epi32(0x400000));
  const __m256 is_nan = _mm256_cmp_ps(floats, floats, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan));
}
template <Nans nans>
FOVEA_HALVES void round_two_bfloat16(Floats a, Floats b, __m256i *rounded_a, __m256i *rounded_b) {
  *rounded_a = round_numbers(a);
  *rounded_b = round_numbers(b);
  if (nans == Nans::short_ones) return;
  if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) == 0, 1)) return;
  *rounded_a = quiet_nans_of(a, *rounded_a);
  *rounded_b = quiet_nans_of(b, *rounded_b);
}
template <Nans nans>
FOVEA_HALVES TwoHalves narrow_two_bfloat16(Floats a, Floats b) {
  __m256i rounded_a, rounded_b;
  round_two_bfloat16<nans>(a, b, &rounded_a, &rounded_b);
  const __m256i quarters = _mm256_packus_epi32(_mm256_srli_epi32(rounded_a, 16), _mm256_srli_epi32(rounded_b, 16));
  return _mm256_permute4x64_epi64(quarters, 0xd8);
}

// Elements of even and of odd index, which takes half the instructions where it does not matter which lane has which.
FOVEA_HALVES void widen_even_odd(TwoHalves halves, Floats *even, Floats *odd) {
  *even = _mm256_castsi256_ps(_mm256_slli_epi32(halves, 16));
  *odd = _mm256_castsi256_ps(_mm256_and_si256(halves, _mm256_set1_epi32(-0x10000)));
}
FOVEA_HALVES void join_even_odd(Floats even, Floats odd, Floats *first, Floats *second) {
  const Floats low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
  *first = _mm256_permute2f128_ps(low, high, 0x20);
  *second = _mm256_permute2f128_ps(low, high, 0x31);
}
template <Nans nans>
FOVEA_HALVES TwoHalves narrow_even_odd(Floats even, Floats odd) {
  __m256i rounded_even, rounded_odd;
  round_two_bfloat16<nans>(even, odd, &rounded_even, &rounded_odd);
  return _mm256_blend_epi16(_mm256_srli_epi32(rounded_even, 16), rounded_odd, 0xaa);
}

#else

using Floats = __m128;
constexpr int64_t halves_count = 4;

FOVEA_HALVES Halves load_halves(const uint16_t *from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(from));
}
FOVEA_HALVES void store_halves(uint16_t *to, Halves halves) {
  _mm_storel_epi64(reinterpret_cast<__m128i *>(to), halves);
}
// The lower halves of four 32-bit lanes, side by side.
FOVEA_HALVES Halves lower_halves(__m128i bits) {
  const __m128i pairs =
      _mm_shufflehi_epi16(_mm_shufflelo_epi16(bits, _MM_SHUFFLE(3, 1, 2, 0)), _MM_SHUFFLE(3, 1, 2, 0));
  return _mm_shuffle_epi32(pairs, _MM_SHUFFLE(3, 1, 2, 0));
}
FOVEA_HALVES __m128i select_bits(__m128i mask, __m128i if_set, __m128i if_clear) {
  return _mm_or_si128(_mm_and_si128(mask, if_set), _mm_andnot_si128(mask, if_clear));
}
FOVEA_HALVES Floats widen_bfloat16(Halves halves) {
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), halves));
}
FOVEA_HALVES Floats widen_float16(Halves halves) {
  const __m128i bits = _mm_unpacklo_epi16(halves, _mm_setzero_si128());
  const __m128i sign = _mm_slli_epi32(_mm_and_si128(bits, _mm_set1_epi32(0x8000)), 16);
  const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fff));
  const __m128i special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff));  // infinity or NaN
  const __m128i shifted = _mm_slli_epi32(magnitude, 13);
  const __m128i finite = _mm_castps_si128(_mm_mul_ps(_mm_castsi128_ps(shifted), _mm_set1_ps(0x1p112f)));
  const __m128i all_ones = _mm_or_si128(shifted, _mm_set1_epi32(0x7f800000));
  return _mm_castsi128_ps(_mm_or_si128(sign, select_bits(special, all_ones, finite)));
}
template <Nans = Nans::any>
FOVEA_HALVES Halves narrow_bfloat16(Floats floats) {
  const __m128i bits = _mm_castps_si128(floats);
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
  const __m128i rounded = _mm_add_epi32(_mm_add_epi32(bits, _mm_set1_epi32(0x7fff)), odd);
  const __m128i quiet = _mm_or_si128(bits, _mm_set1_epi32(0x400000));
  const __m128i is_nan = _mm_castps_si128(_mm_cmpunord_ps(floats, floats));
  return lower_halves(_mm_srli_epi32(select_bits(is_nan, quiet, rounded), 16));
}
FOVEA_HALVES Halves narrow_float16(Floats floats) {
  const __m128i bits = _mm_castps_si128(floats);
  const __m128i sign = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(0x8000));
  const __m128i magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
  // Below 2^-14 the sum with 1/2 has the subnormal number in its lowest bits, rounded by the addition.
  const __m128i half = _mm_set1_epi32(0x3f000000);
  const __m128 raised = _mm_add_ps(_mm_castsi128_ps(magnitude), _mm_castsi128_ps(half));
  const __m128i subnormal = _mm_sub_epi32(_mm_castps_si128(raised), half);
  const __m128i odd = _mm_and_si128(_mm_srli_epi32(magnitude, 13), _mm_set1_epi32(1));
  const __m128i rebased =
      _mm_add_epi32(magnitude, _mm_set1_epi32(static_cast<int32_t>(0xc8000fffu)));  // exponent - 112
  const __m128i normal = _mm_srli_epi32(_mm_add_epi32(rebased, odd), 13);
  const __m128i infinity = _mm_set1_epi32(0x7c00);
  const __m128i is_nan = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000));
  const __m128i quiet =
      _mm_or_si128(_mm_srli_epi32(_mm_and_si128(magnitude, _mm_set1_epi32(0x7fffff)), 13), _mm_set1_epi32(0x7e00));
  const __m128i finite = select_bits(_mm_cmpgt_epi32(_mm_set1_epi32(0x38800000), magnitude), subnormal, normal);
  const __m128i bounded = select_bits(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x477fffff)), infinity, finite);
  return lower_halves(_mm_or_si128(sign, select_bits(is_nan, quiet, bounded)));
}

#endif

#if defined(__AVX2__)
// Pairs of halves under a mask, then the last one of an odd count.
FOVEA_HALVES __m128i first_pairs(int64_t count) {
  return _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int32_t>(count / 2)), _mm_setr_epi32(0, 1, 2, 3));
}
FOVEA_HALVES Halves load_first_halves(const uint16_t *from, int64_t count) {
  const Halves pairs = _mm_maskload_epi32(reinterpret_cast<const int *>(from), first_pairs(count));
  if (count % 2 == 0) return pairs;
  const __m128i at_last =
      _mm_cmpeq_epi16(_mm_set1_epi16(static_cast<int16_t>(count - 1)), _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm_blendv_epi8(pairs, _mm_set1_epi16(static_cast<int16_t>(from[count - 1])), at_last);
}
FOVEA_HALVES void store_first_halves(uint16_t *to, Halves halves, int64_t count) {
  _mm_maskstore_epi32(reinterpret_cast<int *>(to), first_pairs(count), halves);
  if (count % 2 == 0) return;
  uint16_t buffer[halves_count];
  store_halves(buffer, halves);
  to[count - 1] = buffer[count - 1];
}
#else
FOVEA_HALVES Halves load_first_halves(const uint16_t *from, int64_t count) {
  if (count >= halves_count) return load_halves(from);
  uint64_t halves = (count & 1) != 0 ? from[count & 2] : 0;
  if ((count & 2) != 0) {
    uint32_t two;
    memcpy(&two, from, sizeof two);
    halves = halves << 32 | two;
  }
  return _mm_cvtsi64_si128(static_cast<int64_t>(halves));
}
FOVEA_HALVES void store_first_halves(uint16_t *to, Halves halves, int64_t count) {
  if (count >= halves_count) return store_halves(to, halves);
  auto left = static_cast<uint64_t>(_mm_cvtsi128_si64(halves));
  if ((count & 2) != 0) {
    const auto two = static_cast<uint32_t>(left);
    memcpy(to, &two, sizeof two);
    left >>= 32;
  }
  if ((count & 1) != 0) to[count & 2] = static_cast<uint16_t>(left);
}
#endif

#endif

#undef FOVEA_HALVES

}  // namespace
}  // namespace fovea::FOVEA_ISA
