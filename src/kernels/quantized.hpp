// Floats as numbers of 8 bits: the largest of some, and all of them divided by what makes that 127. As numbers of 4:
// the least and the largest, and how far all of them are from the least, divided by what makes that 15.
#pragma once

#include "kernels/narrow_pairs.hpp"
#include "kernels/scaled_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Whether registers take two of bfloat16's at once, of even elements and of odd ones, by a shift and a mask.
#if defined(__AVX2__) && !defined(__AVX512F__)
template <class X>
constexpr bool takes_even_odd = same_type<X, Bfloat16>;
#else
template <class X>
constexpr bool takes_even_odd = false;
#endif

// The largest magnitude of the numbers met, NaN from the first one that is not finite.
class Largest {
 public:
  // `usual` of them, if not 0.
  template <int usual = 0, class X>
  FOVEA_INLINE void meet(const X *x, int64_t count) {
    if constexpr (usual != 0) {
      if constexpr (takes_even_odd<X>) return meet_halves<usual>(x);
      return unroll<usual / lanes>([&](auto i) FOVEA_INLINE_BODY { meet(load(x + i * lanes)); });
    }
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

  // So have those of 16 bits.
  template <int count, class X>
  FOVEA_INLINE void meet_halves([[maybe_unused]] const X *x) {
#if defined(__AVX2__) && !defined(__AVX512F__)
    TwoHalves most = larger_magnitudes(TwoHalves{}, load_two_halves(&x->bits));
    unroll<count / (2 * lanes) - 1>([&](auto i) FOVEA_INLINE_BODY {
      most = larger_magnitudes(most, load_two_halves(&x[(i + 1) * 2 * lanes].bits));
    });
    Float even, odd;
    widen_pair<X>(most, &even, &odd);
    largest_ = xsimd::max(largest_, xsimd::max(bits_of(even), bits_of(odd)));
#endif
  }

  Int largest_ = Int(0);
};

// Two pairs of registers as load_two_in_any_order gives them.
template <class X>
FOVEA_INLINE void store_pairs_as_bytes(int8_t *to, const decltype(Float::data) *four) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (takes_even_odd<X>) return store_even_odd_as_bytes(to, four);
#endif
  store_four_as_bytes(to, four);
}

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
    Float value[4];
    unroll<2>([&](auto i) FOVEA_INLINE_BODY {
      load_two_in_any_order(x + d + i * 2 * lanes, &value[2 * i], &value[2 * i + 1]);
    });
    decltype(Float::data) four[4];
    unroll<4>([&](auto i) FOVEA_INLINE_BODY { four[i] = quantized(value[i]); });
    store_pairs_as_bytes<X>(numbers + d, four);
  }
  for (; d + lanes <= count; d += lanes) store_first_bytes(numbers + d, quantized(load(x + d)), lanes);
  if (d < count) store_first_bytes(numbers + d, quantized(load_partial(x + d, count - d)), count - d);
}

// The bits of floats as integers of the same order, and back.
FOVEA_INLINE Int in_order(const Int &bits) { return bits ^ ((bits >> 31) & Int(INT32_MAX)); }

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

  // 0 in all lanes, or NaN in some if numbers are not finite.
  FOVEA_INLINE Float check() const { return check_; }
  // The largest is, as an integer, the largest lane; likewise the least with its sign turned.
  FOVEA_INLINE Float largest_in_order() const { return float_of(in_order(bits_of(largest_))); }
  FOVEA_INLINE Float least_in_order() const { return float_of(in_order(bits_of(-least_))); }

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
