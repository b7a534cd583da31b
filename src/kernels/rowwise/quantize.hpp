// A row of numbers as 8-bit numbers with a scale for each group of features, symmetric around 0, and back:
//
//   scale = max |x| / 127, rounded up to binary16       number = x (1 / scale), rounded to nearest, ties to even
//
// Rounded up, no number leaves [-127, 127] but where the scale would leave binary16's range: there they are cut. A group of zeros
// has scale 0; one with NaN or infinity has scale NaN, so that it reads back as NaN. Divisions and products are float32's, so that
// all sets give the same bits.
//
// Bound: instructions, some 60 for a group of 32 with AVX-512, half of them to bring its largest number into a scale. A division
// for each number instead of each group would take longer than all the rest.
#pragma once

#include "kernels/attention/scaled_rows.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/quantized.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// A group's scale, and what its numbers are multiplied by.
struct GroupScale {
  Float16 scale;
  float inverse;  // 0 where all numbers become 0
};

// The least binary16 that is not below a positive number, or the largest there is.
FOVEA_NOINLINE Float16 round_up_to_half(float x) {
  if (x > 65504.0f) return {0x7bff};
  const float units = x * 0x1p24f;  // exact; subnormal numbers count the last place's, of which there is at least one
  const auto whole = static_cast<uint32_t>(units);
  return {static_cast<uint16_t>(static_cast<float>(whole) < units || whole == 0 ? whole + 1 : whole)};
}

FOVEA_INLINE GroupScale scale_for(float most) {
  if (most != most) return {{0x7e00}, 0.0f};
  const float least = most / 127.0f;
  if (least >= 0x1p-14f && least <= 65504.0f) {  // as a float it is rounded up to binary16's digits
    uint32_t bits;
    memcpy(&bits, &least, sizeof bits);
    bits = (bits + 0x1fffu) & ~0x1fffu;
    float size;
    memcpy(&size, &bits, sizeof size);
    return {{static_cast<uint16_t>((bits - (112u << 23)) >> 13)}, 1.0f / size};
  }
  if (most == 0.0f) return {{0}, 0.0f};
  const Float16 scale = round_up_to_half(least);
  return {scale, 1.0f / scale_as_float(scale)};
}

void quantize_row(const ScaledRow &row) {
  with_element(row.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *x = static_cast<const typename T::Element *>(row.floats);
    for (int64_t g = 0; g < row.groups; ++g) {
      const int64_t at = g * row.group;
      Largest largest;
      largest.meet(x + at, row.group);
      const GroupScale its = scale_for(largest.magnitude());
      row.scales[g] = its.scale;
      quantize_group(x + at, its.inverse, row.group, row.numbers + at);
    }
  });
}

void dequantize_row(const ScaledRow &row) {
  constexpr int64_t at_once = 1024;
  const int64_t dim = row.groups * row.group;
  for (int64_t d = 0; d < dim; d += at_once) {
    scale_rows_of({row.numbers, 0, row.scales, 0, row.group, 1}, d, min_of(at_once, dim - d),
                  element_at(row.floats, row.dtype, d), row.dtype, 0);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
