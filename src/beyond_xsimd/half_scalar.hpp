// One binary16 as a float, exactly, subnormal numbers and NaN included: by an instruction where there is one, else by
// its bits, which shifted to float32's places are 2^-112 of their value.
#pragma once

#if defined(__F16C__)
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

namespace fovea::FOVEA_ISA {
namespace {

inline __attribute__((always_inline)) float widen_one_float16(uint16_t half) {
#if defined(__F16C__)
  return _cvtsh_ss(half);
#else
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t sign = (half & 0x8000u) << 16;
  uint32_t bits = magnitude << 13;
  float value;
  if (magnitude >= 0x7c00u) {
    bits |= 0x7f800000u;
    memcpy(&value, &bits, sizeof value);
  } else {
    memcpy(&value, &bits, sizeof value);
    value *= 0x1p112f;
  }
  memcpy(&bits, &value, sizeof bits);
  bits |= sign;
  memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
