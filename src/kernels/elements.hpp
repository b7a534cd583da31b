// Numbers as callers keep them: float32, bfloat16 or binary16, the last two widened when they are loaded and rounded
// when they are stored. All that is computed in between is float32.
#pragma once

#include "beyond_xsimd/half_floats.hpp"
#include "kernels/shared_rows.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Whether elements of 16 bits become floats, and floats those, in few instructions.
#if defined(__AVX2__) || defined(__aarch64__)
constexpr bool converts_quickly = true;
#else
constexpr bool converts_quickly = false;
#endif

FOVEA_INLINE Float load(const Bfloat16 *from) { return Float(widen_bfloat16(load_halves(&from->bits))); }
FOVEA_INLINE Float load(const Float16 *from) { return Float(widen_float16(load_halves(&from->bits))); }
FOVEA_INLINE Float load_partial(const Bfloat16 *from, int64_t count) {
  return Float(widen_bfloat16(load_first_halves(&from->bits, count)));
}
FOVEA_INLINE Float load_partial(const Float16 *from, int64_t count) {
  return Float(widen_float16(load_first_halves(&from->bits, count)));
}
FOVEA_INLINE void store(Bfloat16 *to, const Float &value) { store_halves(&to->bits, narrow_bfloat16(value)); }
FOVEA_INLINE void store(Float16 *to, const Float &value) { store_halves(&to->bits, narrow_float16(value)); }
FOVEA_INLINE void store_partial(Bfloat16 *to, const Float &value, int64_t count) {
  store_first_halves(&to->bits, narrow_bfloat16(value), count);
}
FOVEA_INLINE void store_partial(Float16 *to, const Float &value, int64_t count) {
  store_first_halves(&to->bits, narrow_float16(value), count);
}

// NaNs that arithmetic makes of these elements, of infinities and of other numbers.
template <class Element>
constexpr Nans nans_of = Nans::any;
template <>
constexpr Nans nans_of<Bfloat16> = Nans::short_ones;

// Standard headers of C++ are not for these units.
template <class A, class B>
constexpr bool same_type = false;
template <class A>
constexpr bool same_type<A, A> = true;

template <class Element>
constexpr bool is_narrow_element = !same_type<Element, float>;

// Two registers that follow each other, which takes fewer instructions than one after the other.
template <Nans nans, class Element>
FOVEA_INLINE void store_two(Element *to, const Float &a, const Float &b) {
#if defined(__AVX2__)
  if constexpr (same_type<Element, Bfloat16>) return store_two_halves(&to->bits, narrow_two_bfloat16<nans>(a, b));
#endif
  store(to, a);
  store(to + lanes, b);
}

// Likewise; a line of bfloat16 in one load.
template <class Element>
FOVEA_INLINE void load_two(const Element *from, Float *a, Float *b) {
#if defined(__AVX512F__)
  if constexpr (same_type<Element, Bfloat16>) {
    Floats first, second;
    widen_two_bfloat16(load_two_halves(&from->bits), &first, &second);
    *a = Float(first);
    *b = Float(second);
    return;
  }
#endif
  *a = load(from);
  *b = load(from + lanes);
}

// The first `count` of two registers, more than one's.
template <Nans nans, class Element>
FOVEA_INLINE void store_two_partial(Element *to, const Float &a, const Float &b, int64_t count) {
#if defined(__AVX512F__)
  if constexpr (same_type<Element, Bfloat16>) {
    return store_first_two_halves(&to->bits, narrow_two_bfloat16<nans>(a, b), count);
  }
#endif
  store(to, a);
  store_partial(to + lanes, b, count - lanes);
}

// Two registers' worth, in an order of lanes that only the others of these know.
template <class Element>
FOVEA_INLINE void load_two_in_any_order(const Element *from, Float *a, Float *b) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (same_type<Element, Bfloat16>) {
    Floats even, odd;
    widen_even_odd(load_two_halves(&from->bits), &even, &odd);
    *a = Float(even);
    *b = Float(odd);
    return;
  }
#endif
  *a = load(from);
  *b = load(from + lanes);
}
template <class Element>
FOVEA_INLINE void put_in_order([[maybe_unused]] Float *a, [[maybe_unused]] Float *b) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (same_type<Element, Bfloat16>) {
    Floats first, second;
    join_even_odd(*a, *b, &first, &second);
    *a = Float(first);
    *b = Float(second);
  }
#endif
}
template <Nans nans, class Element>
FOVEA_INLINE void store_two_in_any_order(Element *to, const Float &a, const Float &b) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  if constexpr (same_type<Element, Bfloat16>) return store_two_halves(&to->bits, narrow_even_odd<nans>(a, b));
#endif
  store_two<nans>(to, a, b);
}

template <class Element_>
struct Type {
  using Element = Element_;
};

// body(Type<Element>) for an element type known at run time. Types that kernels do not load are refused before
// (is_number): nothing is done for them, so that they are not taken for float32.
template <class Body>
FOVEA_INLINE void with_element(Dtype dtype, const Body &body) {
  switch (dtype) {
    case Dtype::f32: return body(Type<float>{});
#if FOVEA_HAS_BF16
    case Dtype::bf16: return body(Type<Bfloat16>{});
#endif
#if FOVEA_HAS_F16
    case Dtype::f16: return body(Type<Float16>{});
#endif
    default: return;
  }
}

// The same for types of 16 bits alone.
template <class Body>
FOVEA_INLINE void with_widened_element([[maybe_unused]] Dtype dtype, [[maybe_unused]] const Body &body) {
#if FOVEA_HAS_BF16
  if (dtype == Dtype::bf16) return body(Type<Bfloat16>{});
#endif
#if FOVEA_HAS_F16
  body(Type<Float16>{});
#endif
}

template <class Out>
FOVEA_NOINLINE void fill_run(Out *out, int64_t count, float value) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(out + i, splat(value));
  if (i < count) store_partial(out + i, splat(value), count - i);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
