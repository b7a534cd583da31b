// The two instructions that split a float at its binary point and scale by a power of two; xsimd has neither.
#pragma once

#include <immintrin.h>

namespace fovea::FOVEA_ISA {
namespace {

// t - round(t), halves to even; NaN stays NaN, infinities give 0.
inline __attribute__((always_inline)) __m512 fraction_of(__m512 t) { return _mm512_reduce_ps(t, 0x08); }

// p * 2^n for whole n, rounded once; -infinity gives 0.
inline __attribute__((always_inline)) __m512 times_power_of_2(__m512 p, __m512 n) { return _mm512_scalef_ps(p, n); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
