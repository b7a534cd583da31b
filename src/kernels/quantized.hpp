// Floats as numbers of 8 bits: the largest of some, and all of them divided by what makes that 127. As numbers of 4:
// the least and the largest, and how far all of them are from the least, divided by what makes that 15.
#pragma once

#include "kernels/scaled_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// The largest magnitude of the numbers met, NaN from the first one that is not finite.
class Largest {
 public:
  template <class X>
  FOVEA_INLINE void meet(const X *x, int64_t count) {
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) meet(load(x + i));
    if (i < count) meet(load_partial(x + i, count - i));
  }
  FOVEA_INLINE float magnitude() const {
    constexpr int32_t infinity = 0x7f800000;
    return xsimd::any(largest_ >= Int(infinity)) ? __builtin_nanf("") : horizontal_max(float_of(largest_));
  }
  // That is the largest lane, as bits.
  FOVEA_INLINE Float in_lanes() const { return float_of(largest_); }

 private:
  // As numbers without their signs floats have the order of integers, infinity and then NaN above all others.
  FOVEA_INLINE void meet(const Float &x) { largest_ = xsimd::max(largest_, bits_of(xsimd::abs(x))); }

  Int largest_ = Int(0);
};

// x * inverse, rounded to nearest, ties to even. cuts: to [-127, 127], where it might be more, and 0 where inverse is.
template <bool cuts, class X>
FOVEA_INLINE void quantize_group(const X *x, float inverse, int64_t count, int8_t *numbers) {
  if (cuts && inverse == 0.0f) {  // NaN times 0 is none
    memset(numbers, 0, static_cast<size_t>(count));
    return;
  }
  const auto quantized = [&](const Float &value) FOVEA_INLINE_BODY {
    const Float number = value * splat(inverse);
    return (cuts ? at_most(at_least(number, -127.0f), 127.0f) : number).data;
  };
  int64_t d = 0;
  for (; d + 4 * lanes <= count; d += 4 * lanes) {
    decltype(Float::data) four[4];
    unroll<4>([&](auto i) FOVEA_INLINE_BODY { four[i] = quantized(load(x + d + i * lanes)); });
    store_four_as_bytes(numbers + d, four);
  }
  for (; d + lanes <= count; d += lanes) store_first_bytes(numbers + d, quantized(load(x + d)), lanes);
  if (d < count) store_first_bytes(numbers + d, quantized(load_partial(x + d, count - d)), count - d);
}

// The least and the largest of the numbers met, whole registers of them.
class Extent {
 public:
  template <class X>
  FOVEA_INLINE void meet(const X *x, int64_t count) {
    for (int64_t i = 0; i < count; i += lanes) {
      const Float its = load(x + i);
      least_ = smaller(least_, its);
      largest_ = larger(largest_, its);
      check_ = multiply_add(its, zero(), check_);
    }
  }
  FOVEA_INLINE bool is_finite() const { return !xsimd::any(xsimd::isnan(check_)); }
  FOVEA_INLINE float least() const { return horizontal_min(least_); }
  FOVEA_INLINE float largest() const { return horizontal_max(largest_); }

 private:
  Float least_ = splat(__builtin_inff()), largest_ = splat(-__builtin_inff()), check_ = zero();
};

// (x - least) * inverse, rounded to nearest, ties to even, within [0, 15], two a byte; 0 where inverse is.
template <class X>
FOVEA_INLINE void quantize_fours(const X *x, float least, float inverse, int64_t count, uint8_t *numbers) {
  if (inverse == 0.0f) {
    memset(numbers, 0, static_cast<size_t>(count / 2));
    return;
  }
  constexpr int64_t half = four_bit_block / 2;
  const auto quantized = [&](const X *at) FOVEA_INLINE_BODY {
    return at_most(at_least((load(at) - splat(least)) * splat(inverse), 0.0f), 15.0f).data;
  };
  for (int64_t d = 0; d < count; d += four_bit_block) {
    for (int64_t i = 0; i < half; i += lanes) {
      store_fours(numbers + d / 2 + i, quantized(x + d + i), quantized(x + d + half + i));
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
