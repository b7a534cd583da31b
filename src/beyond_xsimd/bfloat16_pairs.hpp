// Products of pairs of bfloat16 (AVX-512-BF16), which xsimd 13 does not have. A 32-bit lane holds two neighbours of a
// sum, the first in the lower half; each instruction adds both products to a float32 lane. Inputs and sums that are
// subnormal count as 0, sums are rounded to nearest, ties to even (Intel's architecture manual, VDPBF16PS).
//
// Making pairs: of two registers of floats, each rounded to the nearest bfloat16, ties away from 0, which differs from
// ties to even once in 2^16; NaN stays one unless its upper bits are 0.
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

// Neighbouring lanes as pairs, those of `first` before those of `second`; rounded to nearest, ties to even.
inline __attribute__((always_inline)) __m512 neighbours_as_pairs(__m512 first, __m512 second) {
  return reinterpret_cast<__m512>(_mm512_cvtne2ps_pbh(second, first));
}

// The halves of pairs, as floats.
inline __attribute__((always_inline)) __m512 first_of_pairs(__m512 pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}
inline __attribute__((always_inline)) __m512 second_of_pairs(__m512 pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32(-0x10000)));
}

// 32 elements, in a register: GCC would have each of two permutations read them.
inline __attribute__((always_inline)) __m512i load_elements(const uint16_t *from) {
  __m512i elements = _mm512_loadu_si512(from);
  asm("" : "+v"(elements));
  return elements;
}

// The first count of 32 elements, the others 0; nothing past them is read.
inline __attribute__((always_inline)) __m512i load_first_elements(const uint16_t *from, int64_t count) {
  return _mm512_maskz_loadu_epi16(_bzhi_u32(0xffffffff, static_cast<uint32_t>(count)), from);
}

// The first four pairs from memory again and again; of `count` of them, the others 0. Nothing else is read.
inline __attribute__((always_inline)) __m512 repeat_four_pairs(const float *from) {
  return _mm512_broadcast_f32x4(_mm_loadu_ps(from));
}
inline __attribute__((always_inline)) __m512 repeat_first_pairs(const float *from, int64_t count) {
  const auto some = static_cast<__mmask8>(_bzhi_u32(0xff, static_cast<uint32_t>(count)));
  return _mm512_broadcast_f32x4(_mm_maskz_loadu_ps(some, from));
}

// The sums of neighbours, in each quarter those of a, then those of b.
inline __attribute__((always_inline)) __m512 add_neighbours(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

// The sums of each quarter of 1 to 4 registers: of the first quarter of each, then of the second and so on. What
// follows the last of them is not specified.
template <int count, class Register>
inline __attribute__((always_inline)) __m512 sums_of_four(const Register *registers) {
  const __m512 first = add_neighbours(registers[0], registers[count > 1 ? 1 : 0]);
  __m512 sums = first;
  if constexpr (count > 2) sums = add_neighbours(registers[2], registers[count - 1]);
  sums = add_neighbours(first, sums);
  if constexpr (count == 4) return sums;
  int places[16];
  for (int i = 0; i < 16; ++i) places[i] = i / count * 4 + i % count;
  return _mm512_permutexvar_ps(_mm512_loadu_si512(places), sums);
}

// The first `count` quarters, 1 to 4; nothing is written behind them.
template <int count>
inline __attribute__((always_inline)) void store_quarters(float *to, __m512 value) {
  if constexpr (count == 1) _mm_storeu_ps(to, _mm512_castps512_ps128(value));
  if constexpr (count == 2) _mm256_storeu_ps(to, _mm512_castps512_ps256(value));
  if constexpr (count == 3) _mm512_mask_storeu_ps(to, 0xfff, value);
  if constexpr (count == 4) _mm512_storeu_ps(to, value);
}

// The groups with even numbers, or with odd ones, of two registers that each hold 16 / width groups of `width` lanes.
template <int width, bool odd>
inline __attribute__((always_inline)) __m512 every_second_group(__m512 a, __m512 b) {
  int places[16];
  for (int i = 0; i < 16; ++i) places[i] = (i / width * 2 + (odd ? 1 : 0)) * width + i % width;
  return _mm512_permutex2var_ps(a, _mm512_loadu_si512(places), b);
}

// Two rows of 32 elements as pairs, each quarter of the registers by itself: `low` has elements 0 to 3, 8 to 11, 16 to
// 19 and 24 to 27, `high` the rest. Sums that lie like that, put in order: the first 16 in `low`.
struct PairRegisters {
  __m512 low, high;
};
inline __attribute__((always_inline)) PairRegisters join_in_quarters(__m512i first, __m512i second) {
  return {_mm512_castsi512_ps(_mm512_unpacklo_epi16(first, second)),
          _mm512_castsi512_ps(_mm512_unpackhi_epi16(first, second))};
}
inline __attribute__((always_inline)) PairRegisters in_order(__m512 low, __m512 high) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512d from = _mm512_castps_pd(low), others = _mm512_castps_pd(high);
  return {_mm512_castpd_ps(_mm512_permutex2var_pd(from, first, others)),
          _mm512_castpd_ps(_mm512_permutex2var_pd(from, second, others))};
}

// Neighbouring elements of two rows, 32 of each, as pairs; the first 16 in `low`.
inline __attribute__((always_inline)) PairRegisters join_rows(__m512i first, __m512i second) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  return {_mm512_castsi512_ps(_mm512_permutex2var_epi16(first, low, second)),
          _mm512_castsi512_ps(_mm512_permutex2var_epi16(first, high, second))};
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
