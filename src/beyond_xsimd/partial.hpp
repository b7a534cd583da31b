// Loads and stores of the first `count` lanes, 0 to all of them, with masked instructions, or with SSE2 two lanes and
// one: memory past them is not touched. In xsimd 13 no load or store takes a mask known only at run time.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX512F__)

inline __attribute__((always_inline)) __m512 load_first_lanes(const float *from, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<uint32_t>(count))), from);
}
inline __attribute__((always_inline)) void store_first_lanes(float *to, __m512 value, int64_t count) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<uint32_t>(count))), value);
}

#elif defined(__AVX2__)

inline __attribute__((always_inline)) __m256i first_lanes(int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane);
}
inline __attribute__((always_inline)) __m256 load_first_lanes(const float *from, int64_t count) {
  return _mm256_maskload_ps(from, first_lanes(count));
}
inline __attribute__((always_inline)) void store_first_lanes(float *to, __m256 value, int64_t count) {
  _mm256_maskstore_ps(to, first_lanes(count), value);
}

#else

inline __attribute__((always_inline)) __m128 load_first_lanes(const float *from, int64_t count) {
  if (count >= 4) return _mm_loadu_ps(from);
  const __m128 none = _mm_setzero_ps();
  const __m128 last = (count & 1) != 0 ? _mm_load_ss(from + (count & 2)) : none;
  if ((count & 2) == 0) return last;
  return _mm_movelh_ps(_mm_loadl_pi(none, reinterpret_cast<const __m64 *>(from)), last);
}
inline __attribute__((always_inline)) void store_first_lanes(float *to, __m128 value, int64_t count) {
  if (count >= 4) return _mm_storeu_ps(to, value);
  if ((count & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64 *>(to), value);
    value = _mm_movehl_ps(value, value);
  }
  if ((count & 1) != 0) _mm_store_ss(to + (count & 2), value);
}

#endif

}  // namespace
}  // namespace fovea::FOVEA_ISA
