// Numbers of 16 bits from and to float32, from their definitions, in integers: what the caller's floating-point mode is
// does not matter.
#pragma once

#include <fovea/fovea.h>

#include <bit>
#include <cstdint>

namespace fuzz {

// To nearest, ties to even; overflow to infinity; NaN stays one.
inline uint16_t narrowed(uint32_t bits, fovea_dtype dtype) {
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (dtype == FOVEA_BF16) {
    if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7fc0);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent > 15) return static_cast<uint16_t>(sign | 0x7c00);
  const uint32_t fraction = magnitude >> 23 == 0 ? 0 : (magnitude & 0x7fffff) | 0x800000;
  // The last place kept is 2^(exponent - 10), at least 2^-24; the fraction's is 2^(exponent - 23).
  const int dropped = exponent >= -14 ? 13 : 13 + (-14 - exponent);
  if (dropped > 25) return static_cast<uint16_t>(sign);
  const uint32_t half = uint32_t{1} << (dropped - 1);
  uint32_t kept = fraction >> dropped;
  const uint32_t rest = fraction & ((uint32_t{1} << dropped) - 1);
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  // The leading bit of a normal number adds one to the exponent's field.
  const uint32_t field = exponent >= -14 ? static_cast<uint32_t>(exponent + 14) << 10 : 0;
  return static_cast<uint16_t>(sign | (field + kept));
}

inline uint32_t widened(uint16_t bits, fovea_dtype dtype) {
  if (dtype == FOVEA_BF16) return static_cast<uint32_t>(bits) << 16;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return sign | 0x7f800000 | fraction << 13;
  if (exponent == 0) {
    if (fraction == 0) return sign;
    exponent = 113;
    while ((fraction & 0x400) == 0) {
      fraction <<= 1;
      --exponent;
    }
    return sign | exponent << 23 | (fraction & 0x3ff) << 13;
  }
  return sign | (exponent + 112) << 23 | fraction << 13;
}

inline bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
inline bool is_nan(uint16_t bits, fovea_dtype dtype) {
  return (bits & 0x7fff) > (dtype == FOVEA_BF16 ? 0x7f80 : 0x7c00);
}

}  // namespace fuzz
