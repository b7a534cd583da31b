// A 16 x 16 transpose by two-register permutes. In xsimd 13 it goes through memory; this is 64 shuffles and no memory.
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

// Four rounds of the perfect shuffle: interleaving row i with row i + 8 moves one bit of the row number into the
// column.
inline __attribute__((always_inline)) void transpose_16x16(__m512 *rows) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  __m512 shuffled[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    shuffled[2 * i] = _mm512_permutex2var_ps(rows[i], low, rows[i + 8]);
    shuffled[2 * i + 1] = _mm512_permutex2var_ps(rows[i], high, rows[i + 8]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    rows[2 * i] = _mm512_permutex2var_ps(shuffled[i], low, shuffled[i + 8]);
    rows[2 * i + 1] = _mm512_permutex2var_ps(shuffled[i], high, shuffled[i + 8]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    shuffled[2 * i] = _mm512_permutex2var_ps(rows[i], low, rows[i + 8]);
    shuffled[2 * i + 1] = _mm512_permutex2var_ps(rows[i], high, rows[i + 8]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    rows[2 * i] = _mm512_permutex2var_ps(shuffled[i], low, shuffled[i + 8]);
    rows[2 * i + 1] = _mm512_permutex2var_ps(shuffled[i], high, shuffled[i + 8]);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
