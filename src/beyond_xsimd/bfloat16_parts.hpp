// A float32 as the sum of three bfloat16: x = x0 + x1 + x2, each the nearest to what is left. What the first leaves is
// at most half of its last place, so 3 x 8 bits hold the 24 of a float32: the sum is exact unless a part is denormal
// (|x| < 2^-102) or x0 overflows.
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

struct BFloat16Parts {
  __m512i part[3];  // lane i: first[i]'s in the low half, second[i]'s in the high half
};

// The nearest bfloat16, as float32: the low half is 0.
inline __attribute__((always_inline)) __m512i nearest_bfloat16(__m512 x) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i kept = _mm512_set1_epi32(-0x10000);
  return _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), kept);
}

inline __attribute__((always_inline)) __m512i join_halves(__m512i first, __m512i second) {
  return _mm512_or_si512(_mm512_srli_epi32(first, 16), second);
}

inline __attribute__((always_inline)) BFloat16Parts parts_of_pairs(__m512 first, __m512 second) {
  BFloat16Parts parts;
  for (int p = 0; p < 2; ++p) {
    const __m512i first_part = nearest_bfloat16(first);
    const __m512i second_part = nearest_bfloat16(second);
    parts.part[p] = join_halves(first_part, second_part);
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(first_part));
    second = _mm512_sub_ps(second, _mm512_castsi512_ps(second_part));
  }
  parts.part[2] = join_halves(_mm512_castps_si512(first), _mm512_castps_si512(second));
  return parts;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
