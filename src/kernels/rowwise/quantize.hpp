// A row of numbers as 8-bit numbers with a scale for each group of features, symmetric around 0, and back:
//
//   scale = max |x| / 127, rounded up to binary16       number = x / scale, rounded to nearest, ties to even
//
// Rounded up, no number leaves [-127, 127] but where the scale would leave binary16's range: there they are cut. A group of zeros
// has scale 0; one with NaN or infinity has scale NaN, so that it reads back as NaN. The division is float32's, so that all sets
// give the same bits.
#pragma once

#include "kernels/attention/scaled_rows.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// The least binary16 that is not below a positive number, or the largest there is.
FOVEA_INLINE Float16 round_up_to_half(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x > 65504.0f) return {0x7bff};
  if (x >= 0x1p-14f) return {static_cast<uint16_t>((bits + 0x1fff - (uint32_t{112} << 23)) >> 13)};
  const float units = x * 0x1p24f;  // exact; subnormal numbers count the last place's, of which there is at least one
  const auto whole = static_cast<uint32_t>(units);
  return {static_cast<uint16_t>(static_cast<float>(whole) < units || whole == 0 ? whole + 1 : whole)};
}

template <class X>
FOVEA_INLINE Float16 scale_of_group(const X *x, int64_t count) {
  Float largest = zero(), check = zero();  // NaN from the first number that is not finite
  const auto add = [&](const Float &value) FOVEA_INLINE_BODY {
    largest = larger(largest, xsimd::abs(value));
    check = multiply_add(value, zero(), check);
  };
  int64_t d = 0;
  for (; d + lanes <= count; d += lanes) add(load(x + d));
  if (d < count) add(load_partial(x + d, count - d));
  if (xsimd::any(xsimd::isnan(check))) return {0x7e00};
  const float most = horizontal_max(largest);
  return most == 0.0f ? Float16{0} : round_up_to_half(most / 127.0f);
}

template <class X>
FOVEA_INLINE void quantize_group(const X *x, Float16 scale, int64_t count, int8_t *numbers) {
  const float size = scale_as_float(scale);
  if (!(size > 0.0f)) {  // 0 or NaN
    memset(numbers, 0, static_cast<size_t>(count));
    return;
  }
  const Float divisor(size);
  for (int64_t d = 0; d < count; d += lanes) {
    const int64_t width = min_of(lanes, count - d);
    const Float value = width == lanes ? load(x + d) : load_partial(x + d, width);
    store_first_bytes(numbers + d, at_most(at_least(quotient(value, divisor), -127.0f), 127.0f).data, width);
  }
}

void quantize_row(const ScaledRow &row) {
  with_element(row.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *x = static_cast<const typename T::Element *>(row.floats);
    for (int64_t g = 0; g < row.groups; ++g) {
      const int64_t at = g * row.group;
      row.scales[g] = scale_of_group(x + at, row.group);
      quantize_group(x + at, row.scales[g], row.group, row.numbers + at);
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
