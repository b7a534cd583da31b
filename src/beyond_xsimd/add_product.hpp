// add_product(a, b, sum): sum + a b, in the register that holds the sum. On sets of 16 registers alone: left the
// choice, GCC writes some sums over a factor, runs out of registers, and has two of twelve sums wait for their stores
// at every step.
#pragma once

#include <xsimd/xsimd.hpp>

namespace fovea::FOVEA_ISA {
namespace {

using Factor = xsimd::batch<float, FOVEA_ARCH>;

inline __attribute__((always_inline)) Factor add_product(const Factor &a, const Factor &b, Factor sum) {
#if defined(__FMA__) && !defined(__AVX512F__)
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum.data) : "x"(a.data), "x"(b.data));
  return sum;
#else
  return xsimd::fma(a, b, sum);
#endif
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
