// Rows of 8-bit numbers with binary16 scales, made rows of floats, which is exact, or of bfloat16 or binary16, to which each
// product is rounded:
//
//   to[j][d] = numbers[j][d] * scales[j][d / group]
//
// What kernels of attention read where they have none for such rows. A scale that is NaN or infinite makes its numbers so, but
// for 0 times infinity, which is NaN. Other products past binary16's range become its largest number: scales are rounded up, so
// that what binary16 holds may be there.
#pragma once

#include "beyond_xsimd/bytes.hpp"
#include "kernels/elements.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Rows that few rows of queries get at once: few enough to stay in the first-level caches until they are read.
constexpr int64_t scaled_at_once = 48;

FOVEA_INLINE float scale_as_float(Float16 scale) {
  const uint32_t magnitude = scale.bits & 0x7fffu;
  const uint32_t sign = (scale.bits & 0x8000u) << 16;
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
}

FOVEA_INLINE bool scales_are_finite(const Float16 *scales, int64_t stride, int64_t count, int64_t groups) {
  bool finite = true;
  for (int64_t j = 0; j < count; ++j, scales += stride) {
    for (int64_t g = 0; g < groups; ++g) finite = finite && (scales[g].bits & 0x7c00u) != 0x7c00u;
  }
  return finite;
}

// Features [from, from + width) of a row. from: of a register, so that none has more than one scale. cut: to binary16's range.
template <bool cut>
FOVEA_INLINE void scale_row(const int8_t *numbers, const Float16 *scales, int64_t group, int64_t from, int64_t width,
                            float *to) {
  numbers += from;
  scales += from / group;
  int64_t end = min_of(group - from % group, width);
  for (int64_t d = 0; d < width; ++scales, end = min_of(end + group, width)) {
    const float its = scale_as_float(*scales);
    const Float scale(its);
    const float most = its * 0.0f == 0.0f ? 65504.0f : __builtin_inff();
    const auto scaled = [&](const Float &value) FOVEA_INLINE_BODY {
      return cut ? at_most(at_least(value * scale, -most), most) : value * scale;
    };
    for (; d + lanes <= end; d += lanes) store(to + d, scaled(Float(load_bytes(numbers + d))));
    if (d == end) continue;
    store_partial(to + d, scaled(Float(load_first_bytes(numbers + d, end - d))), end - d);
    d = end;
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
