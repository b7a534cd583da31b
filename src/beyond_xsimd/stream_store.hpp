// Stores that go past the caches: xsimd 13 has none. The address is a multiple of the register's size. They are ordered
// with nothing until stream_fence().
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX512F__)
inline __attribute__((always_inline)) void stream_store(float *to, __m512 value) { _mm512_stream_ps(to, value); }
#elif defined(__AVX__)
inline __attribute__((always_inline)) void stream_store(float *to, __m256 value) { _mm256_stream_ps(to, value); }
#else
inline __attribute__((always_inline)) void stream_store(float *to, __m128 value) { _mm_stream_ps(to, value); }
#endif

inline __attribute__((always_inline)) void stream_fence() { _mm_sfence(); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
