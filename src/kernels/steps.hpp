// Walks the elements of a row step by step, for kernels of both widths. A step is one register; for 16 bits that become
// the same type it is a pair of registers in the order of kernels/narrow_pairs.hpp, where a processor has pairs; a
// register's worth or less behind the last step goes by itself, in order. Whole steps are not masked: that costs many
// cycles.
#pragma once

#include "kernels/narrow_pairs.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Whether rows of 16 bits are read two registers at a time.
#if defined(__AVX2__)
constexpr bool rows_go_in_pairs = true;
#else
constexpr bool rows_go_in_pairs = false;
#endif

// `count` elements that fill all of `registers` but the last one; behind them is -infinity.
template <int registers, class Element>
FOVEA_INLINE void read_up_to(const Element *from, int64_t count, Float *value) {
#if defined(__AVX2__)
  if constexpr (registers == 2) {
    return count == pair_lanes ? load_pair(from, &value[0], &value[1])
                               : load_first_of_pair(from, count, minus_infinity_bits<Element>, &value[0], &value[1]);
  }
#endif
  value[0] =
      count == lanes ? load(from) : choose(lanes_below(count), load_partial(from, count), splat(-__builtin_inff()));
}

template <int registers, class Element>
FOVEA_INLINE void read_step(const Element *from, Float *value) {
  read_up_to<registers>(from, registers * lanes, value);
}

// The same with zeros behind.
template <int registers, class Element>
FOVEA_INLINE void read_or_zeros(const Element *from, int64_t count, Float *value) {
  if (count == registers * lanes) return read_step<registers>(from, value);
#if defined(__AVX2__)
  if constexpr (registers == 2) return load_first_of_pair(from, count, 0, &value[0], &value[1]);
#endif
  value[0] = load_partial(from, count);
}

// Floats that have come so from a pair lie in whole steps.
template <int registers>
FOVEA_INLINE void read_or_zeros(const float *from, int64_t count, Float *value) {
  if (registers == 1 && count < lanes) return void(value[0] = load_partial(from, count));
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = load(from + v * lanes); });
}

// 1 where the first `count` elements of a step are read, 0 elsewhere.
template <int registers, class Element>
FOVEA_INLINE void ones_of_first(int64_t count, Float *value) {
  if constexpr (registers == 2 && same_type<Element, Bfloat16>) {
    struct Ones {
      alignas(64) Element element[registers * lanes];
      constexpr Ones() : element() {
        for (Element &one : element) one.bits = 0x3f80;
      }
    };
    static constexpr Ones ones;
    read_or_zeros<registers>(ones.element, count, value);
  } else {  // in order
    unroll<registers>(
        [&](auto v) FOVEA_INLINE_BODY { value[v] = choose(lanes_below(count - v * lanes), splat(1.0f), zero()); });
  }
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

// body(Index<registers that they take>) for the elements that are left of a step, if any.
template <int registers, class Body>
FOVEA_INLINE void with_last(int64_t left, const Body &body) {
  if (left == 0) return;
  if constexpr (registers > 1) {
    if (left > lanes) return body(Index<registers>{});
  }
  body(Index<1>{});
}

// The largest of count >= 0 elements; -infinity when there is none. Which NaN gets noticed is not specified.
template <class X>
FOVEA_INLINE float largest_of(const X *x, int64_t count) {
  constexpr int registers = rows_go_in_pairs && is_narrow_element<X> ? 2 : 1;
  constexpr int64_t step = registers * lanes;
  Float most[4], value[4];
  unroll<4>([&](auto v) FOVEA_INLINE_BODY { most[v] = splat(-__builtin_inff()); });
  if (count <= lanes) {
    read_up_to<1>(x, count, most);
    return horizontal_max(most[0]);
  }
  // Elements seen twice do not change a maximum.
  count < step ? read_up_to<registers>(x, count, most) : read_step<registers>(x + count - step, most);
  const auto meet = [&](auto held, int64_t i) FOVEA_INLINE_BODY {
    constexpr int more = decltype(held)::value;
    unroll<more / registers>([&](auto s)
                                 FOVEA_INLINE_BODY { read_step<registers>(x + i + s * step, value + s * registers); });
    unroll<more>([&](auto v) FOVEA_INLINE_BODY { most[v] = larger(value[v], most[v]); });
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) meet(Index<4>{}, i);
  for (; i + step <= count; i += step) meet(Index<registers>{}, i);
  return horizontal_max(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
