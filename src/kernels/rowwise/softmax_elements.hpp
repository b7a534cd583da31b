// What softmax asks of a row's elements, whatever their type: read them, make powers e^{x - max} of them, write these times a
// factor. A step is one register. Of 16 bits that become the same type it is a pair of registers in the order of
// kernels/narrow_pairs.hpp, where a processor has pairs; a register's worth or less behind the last pair goes by itself, in order.
// All sums are of one register, or two, that run over the steps.
#pragma once

#include "kernels/math/narrow.hpp"
#include "kernels/narrow_pairs.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX2__)
template <class X, class Out>
constexpr bool goes_in_pairs = same_type<X, Out> && is_narrow_element<X>;
#else
template <class X, class Out>
constexpr bool goes_in_pairs = false;
#endif

// ---- powers ----------------------------------------------------------------------------------------------------------

// As exact as float32: 2^(log2 e (x - max)), of bfloat16 throughout times another power of two, which their sum has, too.
template <int lifted>
struct FloatPowers {
  LiftedExp2<lifted> exp{log2_of_e};
  Float row_max;

  FOVEA_INLINE explicit FloatPowers(float max) : row_max(splat(max)) {}
  // Else the row is empty, or all of its results are NaN.
  FOVEA_INLINE static bool take(float max) { return __builtin_fabsf(max) < __builtin_inff(); }
  FOVEA_INLINE Float operator()(const Float &x) const { return exp(x - row_max); }
};

#if defined(__AVX2__)
// As exact as 16 bits need (math/narrow.hpp). x log2 e - max log2 e is one multiply-add: the rounding of max log2 e is the same
// factor in every power and in their sum. It stays a factor near 1 while the maximum is below 2^16.
struct ShortPowers {
  Float shift;

  FOVEA_INLINE explicit ShortPowers(float max) : shift(splat(-(max * log2_of_e))) {}
  FOVEA_INLINE static bool take(float max) { return __builtin_fabsf(max) < 0x1p16f; }
  FOVEA_INLINE Float operator()(const Float &x) const {
    return narrow_exp2_of_negative(multiply_add(x, splat(log2_of_e), shift));
  }
};
#endif

// ---- reading and writing ---------------------------------------------------------------------------------------------

// `count` elements that fill all of `registers` but the last one; behind them is -infinity. Whole steps are not masked: that
// costs many cycles.
template <int registers, class Element>
FOVEA_INLINE void read_up_to(const Element *from, int64_t count, Float *value) {
#if defined(__AVX2__)
  if constexpr (registers == 2) {
    return count == pair_lanes
               ? load_pair(from, &value[0], &value[1])
               : load_first_of_pair(from, count, minus_infinity_bits<Element>, &value[0], &value[1]);
  }
#endif
  value[0] = count == lanes ? load(from)
                            : choose(lanes_below(count), load_partial(from, count), splat(-__builtin_inff()));
}

template <int registers, class Element>
FOVEA_INLINE void read_step(const Element *from, Float *value) {
  read_up_to<registers>(from, registers * lanes, value);
}

// Fewer than a step.
template <int registers, class Element>
FOVEA_INLINE void read_last(const Element *from, int64_t count, Float *value) {
  if (registers > 1 && count > lanes) return read_up_to<registers>(from, count, value);
  read_up_to<1>(from, count, value);
  if constexpr (registers > 1) value[1] = splat(-__builtin_inff());
}

// None of what is written is NaN.
template <int registers, class Element>
FOVEA_INLINE void write_up_to(Element *to, int64_t count, const Float *value) {
#if defined(__AVX2__)
  if constexpr (registers == 2) {
    return count == pair_lanes ? store_pair(to, value[0], value[1])
                               : store_first_of_pair(to, value[0], value[1], count);
  }
#endif
  if constexpr (same_type<Element, Bfloat16>) {
    const Halves halves = narrow_bfloat16<Nans::short_ones>(value[0]);
    count == lanes ? store_halves(&to->bits, halves) : store_first_halves(&to->bits, halves, count);
  } else {
    count == lanes ? store(to, value[0]) : store_partial(to, value[0], count);
  }
}

// Two registers, of one step or of two.
template <int registers, class Element>
FOVEA_INLINE void write_two(Element *to, const Float &a, const Float &b) {
  if constexpr (registers == 1) {
    store_two<Nans::short_ones>(to, a, b);
  } else {
    const Float value[2] = {a, b};
    write_up_to<2>(to, 2 * lanes, value);
  }
}

// ---- the largest -----------------------------------------------------------------------------------------------------

// The largest of count >= 0 elements; -infinity when there is none. Which NaN gets noticed is not specified.
template <class X>
FOVEA_INLINE float largest_of(const X *x, int64_t count) {
  const Float least = splat(-__builtin_inff());
  if (count < lanes) return horizontal_max(choose(lanes_below(count), load_partial(x, count), least));
  Float most[4] = {least, least, least, least};
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    unroll<4>([&](auto v) FOVEA_INLINE_BODY { most[v] = larger(most[v], load(x + i + v * lanes)); });
  }
  for (; i + lanes <= count; i += lanes) most[0] = larger(most[0], load(x + i));
  most[1] = larger(most[1], load(x + count - lanes));  // elements seen before do not change a maximum
  return horizontal_max(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

FOVEA_NOINLINE inline float row_max_of(const float *x, int64_t count) { return largest_of(x, count); }

// Of 16 bits many at a time, as integers: the bits of a negative number turned over, all are in order. A NaN comes behind
// the infinity of its sign.
template <class X>
FOVEA_NOINLINE float row_max_of(const X *x, int64_t count) {
  using Integers = xsimd::batch<int16_t, Arch>;
  constexpr auto width = static_cast<int64_t>(Integers::size);
  if (count < width) return largest_of(x, count);
  const auto in_order = [](const Integers &bits) FOVEA_INLINE_BODY { return bits ^ ((bits >> 15) & Integers(0x7fff)); };
  const auto *from = reinterpret_cast<const int16_t *>(x);
  const auto at = [&](int64_t i) FOVEA_INLINE_BODY { return in_order(Integers::load_unaligned(from + i)); };
  Integers most[2] = {at(count - width), at(0)};  // elements seen before do not change a maximum
  int64_t i = width;
  for (; i + 2 * width <= count; i += 2 * width) {
    unroll<2>([&](auto v) FOVEA_INLINE_BODY { most[v] = xsimd::max(most[v], at(i + v * width)); });
  }
  if (i + width <= count) most[0] = xsimd::max(most[0], at(i));
  X largest[width];
  in_order(xsimd::max(most[0], most[1])).store_unaligned(reinterpret_cast<int16_t *>(largest));
  return horizontal_max(larger(load(largest), load(largest + lanes)));
}

FOVEA_INLINE bool is_minus_infinity(float x) { return x == -__builtin_inff(); }
FOVEA_INLINE bool is_minus_infinity(Bfloat16 x) { return x.bits == minus_infinity_bits<Bfloat16>; }
FOVEA_INLINE bool is_minus_infinity(Float16 x) { return x.bits == minus_infinity_bits<Float16>; }

template <class X>
bool every_element_is_minus_infinity(const X *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!is_minus_infinity(x[i])) return false;
  }
  return true;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
