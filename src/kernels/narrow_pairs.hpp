// Loads and stores for kernels from 16 bits to the same 16 bits: two registers' worth at a time, in an order of lanes
// that is the same for load and store and otherwise not specified. Only for results without NaNs of float32's own
// (Nans::short_ones). They are rounded to nearest, whichever way where they are halfway between two; by what is called
// exact, to the even one then.
#pragma once

#include "beyond_xsimd/half_pairs.hpp"
#include "kernels/elements.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX2__)
constexpr int64_t pair_lanes = 2 * lanes;

// `halves`: as they lie in memory.
template <class Element>
FOVEA_INLINE void widen_pair(TwoHalves halves, Float *a, Float *b) {
  Floats first, second;
  same_type<Element, Bfloat16> ? widen_even_odd(halves, &first, &second) : widen_two_float16(halves, &first, &second);
  *a = Float(first);
  *b = Float(second);
}
template <class Element>
FOVEA_INLINE TwoHalves narrow_pair(const Float &a, const Float &b) {
  if constexpr (same_type<Element, Bfloat16>) return join_even_odd(a, b);
  return narrow_two_float16(a, b);
}
template <class Element>
FOVEA_INLINE TwoHalves narrow_pair_exactly(const Float &a, const Float &b) {
  if constexpr (same_type<Element, Bfloat16>) return join_even_odd_exactly(a, b);
  return narrow_two_float16(a, b);
}

template <class Element>
FOVEA_INLINE void load_pair(const Element *from, Float *a, Float *b) {
  if constexpr (same_type<Element, Bfloat16>) return widen_pair<Element>(load_two_halves(&from->bits), a, b);
  *a = load(from);
  *b = load(from + lanes);
}
template <class Element>
FOVEA_INLINE void store_pair(Element *to, const Float &a, const Float &b) {
  if constexpr (same_type<Element, Bfloat16>) return store_two_halves(&to->bits, narrow_pair<Element>(a, b));
  store(to, a);
  store(to + lanes, b);
}

// The same of the first `count`; the others are `rest`.
template <class Element>
FOVEA_INLINE void load_first_of_pair(const Element *from, int64_t count, uint16_t rest, Float *a, Float *b) {
  widen_pair<Element>(load_first_two_halves(&from->bits, count, rest), a, b);
}
template <class Element>
FOVEA_INLINE void store_first_of_pair(Element *to, const Float &a, const Float &b, int64_t count) {
  store_first_two_halves(&to->bits, narrow_pair<Element>(a, b), count);
}
// `count`: of a pair of registers' or fewer.
template <class Element>
FOVEA_INLINE void store_up_to_pair_exactly(Element *to, const Float &a, const Float &b, int64_t count) {
  const TwoHalves halves = narrow_pair_exactly<Element>(a, b);
  count == pair_lanes ? store_two_halves(&to->bits, halves) : store_first_two_halves(&to->bits, halves, count);
}
#endif

// The bits of -infinity.
template <class Element>
constexpr uint16_t minus_infinity_bits = 0xff80;
template <>
constexpr uint16_t minus_infinity_bits<Float16> = 0xfc00;

}  // namespace
}  // namespace fovea::FOVEA_ISA
