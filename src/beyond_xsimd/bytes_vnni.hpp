// Bytes as products of four of them take them (AVX-512-VNNI, with AVX-512-VBMI's permutations): unsigned, four
// neighbours or four of different rows beside each other; and 16 bits as two bytes, number = 256 * high + low, both
// signed.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "beyond_xsimd/transpose_avx512.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#define FOVEA_BYTES inline __attribute__((always_inline))

// Signed bytes with 128 added.
FOVEA_BYTES __m512i unsigned_bytes(__m512i bytes) {
  return _mm512_xor_si512(bytes, _mm512_set1_epi32(static_cast<int>(0x80808080u)));
}

// The two bytes of 32-bit numbers of at most 127 * 256.
struct SplitBytes {
  __m512i high, low;
};
FOVEA_BYTES SplitBytes split_bytes(__m512i numbers) {
  const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(numbers, _mm512_set1_epi32(128)), 8);
  return {high, _mm512_sub_epi32(numbers, _mm512_slli_epi32(high, 8))};
}

// 32-bit numbers as 16 bytes.
FOVEA_BYTES void store_bytes(int32_t *to, __m512i numbers) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(numbers));
}

// Numbers [key][group] as bytes [group][key]: the high ones, then the low ones, 32 bytes.
FOVEA_BYTES void store_quads(int32_t *to, __m512i numbers) {
  const __m512i raised = _mm512_add_epi32(numbers, _mm512_set1_epi32(128));
  // Byte 1 of each of the second register, then byte 0 of each of the first.
  const __m512i places = _mm512_setr_epi32(0x31211101 | 0x40404040, 0x35251505 | 0x40404040, 0x39291909 | 0x40404040,
                                           0x3d2d1d0d | 0x40404040, 0x30201000, 0x34241404, 0x38281808, 0x3c2c1c0c, 0,
                                           0, 0, 0, 0, 0, 0, 0);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to),
                      _mm512_castsi512_si256(_mm512_permutex2var_epi8(numbers, places, raised)));
}

// Places that are so many bytes apart, eight at a time: up to seven more than `count` are written.
template <class Element>
FOVEA_BYTES void fill_places(const Element **to, const Element *first, int64_t bytes_apart, int64_t count) {
  const __m512i step = _mm512_set1_epi64(8 * bytes_apart);
  __m512i at =
      _mm512_add_epi64(_mm512_set1_epi64(reinterpret_cast<long long>(first)),
                       _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(bytes_apart)));
  for (int64_t n = 0; n < count; n += 8, at = _mm512_add_epi64(at, step)) _mm512_storeu_si512(to + n, at);
}

// 16 bytes from `first` on of four rows, [byte][row].
FOVEA_BYTES __m512i join_four_rows(const int8_t *const *row, int64_t first) {
  const auto load = [&](int n) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(row[n] + first));
  };
  __m512i rows = _mm512_castsi128_si512(load(0));
  rows = _mm512_inserti32x4(rows, load(1), 1);
  rows = _mm512_inserti32x4(rows, load(2), 2);
  rows = _mm512_inserti32x4(rows, load(3), 3);
  const __m512i places =
      _mm512_setr_epi32(0x30201000, 0x31211101, 0x32221202, 0x33231303, 0x34241404, 0x35251505, 0x36261606, 0x37271707,
                        0x38281808, 0x39291909, 0x3a2a1a0a, 0x3b2b1b0b, 0x3c2c1c0c, 0x3d2d1d0d, 0x3e2e1e0e, 0x3f2f1f0f);
  return _mm512_permutexvar_epi8(places, rows);
}

// A block of 32 features of 4 bits (kernels/scaled_rows.hpp) from byte `first` on of four rows, [feature][row].
FOVEA_BYTES void join_four_blocks(const int8_t *const *row, int64_t first, __m512i *to) {
  const __m512i both = join_four_rows(row, first), low = _mm512_set1_epi8(15);
  to[0] = _mm512_and_si512(both, low);
  to[1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
}

// 16 or 32 (registers 1 or 2) bytes from `feature` on of four rows, as unsigned ones, [feature][row].
template <int registers>
FOVEA_BYTES void join_four_keys(const int8_t *const *row, int64_t feature, __m512i *to) {
  const auto all = [&](int n) __attribute__((always_inline)) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(row[n] + feature));
  };
  if constexpr (registers == 1) {
    to[0] = unsigned_bytes(join_four_rows(row, feature));
  } else {
    const __m512i first = unsigned_bytes(_mm512_inserti64x4(_mm512_castsi256_si512(all(0)), all(1), 1));
    const __m512i last = unsigned_bytes(_mm512_inserti64x4(_mm512_castsi256_si512(all(2)), all(3), 1));
    const __m512i low = _mm512_setr_epi32(0x60402000, 0x61412101, 0x62422202, 0x63432303, 0x64442404, 0x65452505,
                                          0x66462606, 0x67472707, 0x68482808, 0x69492909, 0x6a4a2a0a, 0x6b4b2b0b,
                                          0x6c4c2c0c, 0x6d4d2d0d, 0x6e4e2e0e, 0x6f4f2f0f);
    const __m512i high = _mm512_or_si512(low, _mm512_set1_epi32(0x10101010));
    to[0] = _mm512_permutex2var_epi8(first, low, last);
    to[1] = _mm512_permutex2var_epi8(first, high, last);
  }
}

// 32 bytes from `feature` on of 16 rows, as unsigned ones, [four features][row]. Rows 8 m + i and 8 m + 4 + i share a
// register, so that shuffles within quarters of registers, of which a processor has most, do most of it.
FOVEA_BYTES void load_quads(const int8_t *const *row, int64_t feature, __m512i *to) {
  const auto load = [&](int n) __attribute__((always_inline)) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(row[n] + feature));
  };
  // [half of the rows][quad q]: quarters hold quads q and 4 + q of its rows 0 to 3, then of its rows 4 to 7.
  __m512i turned[2][4];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m512i two[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      two[i] =
          unsigned_bytes(_mm512_inserti64x4(_mm512_castsi256_si512(load(8 * half + i)), load(8 * half + 4 + i), 1));
    }
    const __m512i first_low = _mm512_unpacklo_epi32(two[0], two[1]), first_high = _mm512_unpackhi_epi32(two[0], two[1]);
    const __m512i last_low = _mm512_unpacklo_epi32(two[2], two[3]), last_high = _mm512_unpackhi_epi32(two[2], two[3]);
    turned[half][0] = _mm512_unpacklo_epi64(first_low, last_low);
    turned[half][1] = _mm512_unpackhi_epi64(first_low, last_low);
    turned[half][2] = _mm512_unpacklo_epi64(first_high, last_high);
    turned[half][3] = _mm512_unpackhi_epi64(first_high, last_high);
  }
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    to[q] = _mm512_shuffle_i32x4(turned[0][q], turned[1][q], 0x88);
    to[4 + q] = _mm512_shuffle_i32x4(turned[0][q], turned[1][q], 0xdd);
  }
}

// Four registers [row][group] of four rows each as four of 16 rows.
template <class Register>
FOVEA_BYTES void transpose_fours(Register *four) {
  const __m512i even = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i odd = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  const __m512 first_low = _mm512_permutex2var_ps(four[0].data, even, four[1].data);  // groups 0 and 1 of rows 0 to 7
  const __m512 last_low = _mm512_permutex2var_ps(four[2].data, even, four[3].data);
  const __m512 first_high = _mm512_permutex2var_ps(four[0].data, odd, four[1].data);
  const __m512 last_high = _mm512_permutex2var_ps(four[2].data, odd, four[3].data);
  four[0] = Register(_mm512_shuffle_f32x4(first_low, last_low, 0x44));
  four[1] = Register(_mm512_shuffle_f32x4(first_low, last_low, 0xee));
  four[2] = Register(_mm512_shuffle_f32x4(first_high, last_high, 0x44));
  four[3] = Register(_mm512_shuffle_f32x4(first_high, last_high, 0xee));
}

// Four registers of 16 numbers as four of [number][register].
template <class Register>
FOVEA_BYTES void turn_to_fours(Register *four) {
  const __m512 first_low = _mm512_unpacklo_ps(four[0].data, four[1].data);  // numbers 0, 1 of each quarter
  const __m512 first_high = _mm512_unpackhi_ps(four[0].data, four[1].data);
  const __m512 last_low = _mm512_unpacklo_ps(four[2].data, four[3].data);
  const __m512 last_high = _mm512_unpackhi_ps(four[2].data, four[3].data);
  // Number 4 q + i of all four, in quarter q of register i.
  const __m512 a = _mm512_shuffle_ps(first_low, last_low, 0x44), b = _mm512_shuffle_ps(first_low, last_low, 0xee);
  const __m512 c = _mm512_shuffle_ps(first_high, last_high, 0x44), d = _mm512_shuffle_ps(first_high, last_high, 0xee);
  const __m512 ab_even = _mm512_shuffle_f32x4(a, b, 0x88), ab_odd = _mm512_shuffle_f32x4(a, b, 0xdd);
  const __m512 cd_even = _mm512_shuffle_f32x4(c, d, 0x88), cd_odd = _mm512_shuffle_f32x4(c, d, 0xdd);
  // a0 a2 b0 b2 | a1 a3 b1 b3 | c0 c2 d0 d2 | c1 c3 d1 d3
  const __m512 even = _mm512_shuffle_f32x4(ab_even, cd_even, 0x88),
               even_last = _mm512_shuffle_f32x4(ab_even, cd_even, 0xdd);
  const __m512 odd = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0x88), odd_last = _mm512_shuffle_f32x4(ab_odd, cd_odd, 0xdd);
  four[0] = Register(even);       // a0 b0 c0 d0
  four[1] = Register(odd);        // a1 b1 c1 d1
  four[2] = Register(even_last);  // a2 b2 c2 d2
  four[3] = Register(odd_last);
}

// Lanes [key][group] combined over the four keys, in each of them.
template <class Combine>
FOVEA_BYTES __m512 over_keys(__m512 lanes, const Combine &combine) {
  lanes = combine(lanes, _mm512_shuffle_f32x4(lanes, lanes, 0x4e));
  return combine(lanes, _mm512_shuffle_f32x4(lanes, lanes, 0xb1));
}

#undef FOVEA_BYTES

}  // namespace
}  // namespace fovea::FOVEA_ISA
