// Stores that go past the caches: xsimd 13 has none. The address is a multiple of the register's size. They are ordered
// with nothing until stream_fence().
#pragma once

#include <immintrin.h>

#include "beyond_xsimd/half_floats.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX512F__)
inline __attribute__((always_inline)) void stream_store(float *to, __m512 value) { _mm512_stream_ps(to, value); }
inline __attribute__((always_inline)) void stream_halves(uint16_t *to, Halves halves) {
  _mm256_stream_si256(reinterpret_cast<__m256i *>(to), halves);
}
#elif defined(__AVX__)
inline __attribute__((always_inline)) void stream_store(float *to, __m256 value) { _mm256_stream_ps(to, value); }
inline __attribute__((always_inline)) void stream_halves(uint16_t *to, Halves halves) {
  _mm_stream_si128(reinterpret_cast<__m128i *>(to), halves);
}
#else
inline __attribute__((always_inline)) void stream_store(float *to, __m128 value) { _mm_stream_ps(to, value); }
inline __attribute__((always_inline)) void stream_halves(uint16_t *to, Halves halves) {
  _mm_stream_si64(reinterpret_cast<long long *>(to), _mm_cvtsi128_si64(halves));
}
#endif

inline __attribute__((always_inline)) void stream_fence() { _mm_sfence(); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
