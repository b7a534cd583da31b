// A row of numbers as 8-bit numbers with a scale for each group of features, symmetric around 0, and back:
//
//   scale = max |x| / 127, rounded up to binary16       number = x (1 / scale), rounded to nearest, ties to even
//
// and as numbers of 4 bits, with a scale and the least number for each group:
//
//   least = min x, rounded down to binary16             scale = (max x - least) / 15, rounded up to binary16
//   number = (x - least) (1 / scale), rounded to nearest, ties to even
//
// Rounded up, no number leaves [-127, 127] or [0, 15] but where the scale or the least would leave binary16's range:
// there they are cut. A group of zeros (4 bits: of one number that binary16 has) has scale 0; another constant one gets
// a scale as all do, which holds it better than the nearest binary16. One with NaN or infinity has scale NaN, so that
// it reads back as NaN. Differences, divisions and products are float32's, so that all sets give the same bits.
//
// Bound: instructions. With AVX2 callgrind counts 157 for a group of 32 float32 numbers, 175 of bfloat16 and 223 in 4 bits,
// and a Zen 3 does 3.5 a cycle. Scales of several groups are made one after the other: by itself each waits for two
// divisions; as lanes of one register they wait for the stores of their floats. A division for each number would take
// longer than all the rest.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/quantized.hpp"
#include "kernels/scaled_rows.hpp"

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

// steps: the number that `most` becomes.
FOVEA_INLINE GroupScale scale_for(float most, float steps) {
  if (most != most) return {{0x7e00}, 0.0f};
  const float least = most / steps;
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

// The largest binary16 that is not above a number of a size that binary16 has as subnormal numbers, or of one past its
// range.
FOVEA_NOINLINE Float16 round_down_to_short_half(float x) {
  if (x > 65504.0f) return {0x7bff};
  if (x < -65504.0f) return {0xfbff};
  const float units = x * 0x1p24f;  // exact
  auto whole = static_cast<int32_t>(units);
  if (static_cast<float>(whole) > units) --whole;
  return {static_cast<uint16_t>(whole >= 0 ? whole : 0x8000 - whole)};
}

// The same of any finite number; of zeros +0.
FOVEA_INLINE Float16 round_down_to_half(float x) {
  const float size = __builtin_fabsf(x);
  if (!(size >= 0x1p-14f && size <= 65504.0f)) return round_down_to_short_half(x);
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u;
  bits &= 0x7fffffffu;
  if (sign != 0) bits += 0x1fffu;  // further from 0
  return {static_cast<uint16_t>(sign | (bits - (112u << 23)) >> 13)};
}

// Of so many groups first the largest numbers, then scales, then all numbers: each takes long by itself, and little time
// beside others.
constexpr int64_t groups_together = 8;

template <class X>
FOVEA_INLINE void quantize_in_eight_bits(const ScaledRow &row, const X *x) {
  const int64_t group = row.group;
  auto *numbers = static_cast<int8_t *>(row.numbers);
  Float16 *scales = row.scales;
  for (int64_t left = row.groups; left > 0; left -= groups_together, scales += groups_together) {
    const int64_t count = min_of(groups_together, left);
    float most[groups_together], inverse[groups_together];
    for (int64_t g = 0; g < count; ++g) {
      Largest largest;
      largest.meet(x + g * group, group);
      most[g] = largest.magnitude();
    }
    for (int64_t g = 0; g < count; ++g) {
      const GroupScale its = scale_for(most[g], 127.0f);
      scales[g] = its.scale;
      inverse[g] = its.inverse;
    }
    for (int64_t g = 0; g < count; ++g, x += group, numbers += group) quantize_group(x, inverse[g], group, numbers);
  }
}

template <class X>
FOVEA_INLINE void quantize_in_four_bits(const ScaledRow &row, const X *x) {
  const int64_t group = row.group;
  auto *numbers = static_cast<uint8_t *>(row.numbers);
  Float16 *scales = row.scales;
  for (int64_t left = row.groups; left > 0; left -= groups_together, scales += 2 * groups_together) {
    const int64_t count = min_of(groups_together, left);
    float least[groups_together], most[groups_together], inverse[groups_together];
    for (int64_t g = 0; g < count; ++g) {
      Extent extent;
      extent.meet(x + g * group, group);
      const bool finite = extent.is_finite();
      scales[2 * g + 1] = finite ? round_down_to_half(extent.least()) : Float16{0};
      least[g] = scale_as_float(scales[2 * g + 1]);
      const float above = extent.largest() - least[g];  // below 0 where all are below what binary16 holds
      most[g] = finite ? (above > 0.0f ? above : 0.0f) : __builtin_nanf("");
    }
    for (int64_t g = 0; g < count; ++g) {
      const GroupScale its = scale_for(most[g], 15.0f);
      scales[2 * g] = its.scale;
      inverse[g] = its.inverse;
    }
    for (int64_t g = 0; g < count; ++g, x += group, numbers += group / 2) {
      quantize_fours(x, least[g], inverse[g], group, numbers);
    }
  }
}

void quantize_row(const ScaledRow &row) {
  with_element(row.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *x = static_cast<const typename T::Element *>(row.floats);
    if (row.numbers_dtype == Dtype::u8) return quantize_in_four_bits(row, x);
    quantize_in_eight_bits(row, x);
  });
}

void dequantize_row(const ScaledRow &row) {
  constexpr int64_t at_once = 1024;
  const int64_t dim = row.groups * row.group;
  for (int64_t d = 0; d < dim; d += at_once) {
    scale_rows_of({row.numbers, row.numbers_dtype, 0, row.scales, 0, row.group, 1}, d, min_of(at_once, dim - d),
                  element_at(row.floats, row.dtype, d), row.dtype, 0);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
