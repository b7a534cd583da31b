// Rotary position embedding: the pair (x, y) of a row's features becomes (x cos - y sin, x sin + y cos). The cosines
// and sines come from a table that all rows of one position share; a row is read once and written once, and rows are as
// fast as memory. Pairs that lie side by side are turned in place, lanes swapped: there the table holds each cosine
// twice and each sine with both signs. Both conventions compute the same roundings.
#pragma once

#include "kernels/math/sincos.hpp"
#include "kernels/positions/problem.hpp"
#include "kernels/prefetch.hpp"
#include "kernels/rowwise/row_pass.hpp"
#include "kernels/rowwise/widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// A register of pairs goes into a row of the table.
FOVEA_INLINE void store_turns(bool interleaved, const SinCos &turn, float *first, float *second, int64_t pair) {
  if (!interleaved) {
    store(first + pair, turn.cosine);
    store(second + pair, turn.sine);
    return;
  }
  Float low;
  Float high;
  interleave(turn.cosine, turn.cosine, &low, &high);
  store(first + 2 * pair, low);
  store(first + 2 * pair + lanes, high);
  interleave(-turn.sine, turn.sine, &low, &high);
  store(second + 2 * pair, low);
  store(second + 2 * pair + lanes, high);
}

// A pass of its own: most calls have none.
FOVEA_NOINLINE void scale_turns(float *run, int64_t width, float factor) {
  if (factor == 1.0f) return;
  for (int64_t i = 0; i < width; i += lanes) store(run + i, load(run + i) * splat(factor));
}

void rotary_table(const RotaryTable &rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    float *first = rows.table + r * 2 * rows.width;
    float *second = first + rows.width;
    for (int64_t pair = 0; pair < rows.pairs; pair += lanes) {
      store_turns(rows.interleaved, sincos_of(rows.frequencies + pair, rows.positions[r]), first, second, pair);
    }
  }
  if (rows.factor != 1.0f) scale_turns(rows.table, rows.count * 2 * rows.width, rows.factor);
}

void rotary_row_of_positions(const RotaryTable &row) {
  for (int64_t pair = 0; pair < row.pairs; pair += lanes) {
    const SinCos turn = sincos_of(row.frequencies + pair, Double::load_unaligned(row.positions + pair),
                                  Double::load_unaligned(row.positions + pair + double_lanes));
    store_turns(row.interleaved, turn, row.table, row.table + row.width, pair);
  }
  scale_turns(row.table, 2 * row.width, row.factor);
}

void rotary_given_row(const GivenTurns &row) {
  constexpr int64_t most = 512;  // pairs at a time
  alignas(64) float cosines[most];
  alignas(64) float sines[most];
  float *first = row.table;
  float *second = first + row.width;
  for (int64_t begin = 0; begin < row.pairs; begin += most) {
    const int64_t count = min_of(row.pairs - begin, most);
    const int64_t whole = (count + lanes - 1) / lanes * lanes;
    for (int64_t i = count; i < whole; ++i) cosines[i] = sines[i] = 0.0f;
    widen_rows(element_at(row.cosines, row.cosine_type, begin), row.cosine_type, 0, 1, count, cosines, 0);
    widen_rows(element_at(row.sines, row.sine_type, begin), row.sine_type, 0, 1, count, sines, 0);
    for (int64_t i = 0; i < whole; i += lanes) {
      store_turns(row.interleaved, {load(sines + i), load(cosines + i)}, first, second, begin + i);
    }
  }
  scale_turns(first, row.width, row.cosine_factor);
  scale_turns(second, row.width, row.sine_factor);
}

// `group` rows at one position, their pairs side by side: a register of the table serves them all. Whole pairs at a
// time. Only rows in a core's own cache are taken together: from further away they are faster one after the other.
template <int group, class X, class Out, class Store>
FOVEA_INLINE void rotate_neighbours(const RotatedRows &rows, const X *x, const float *table, Out *out,
                                    const Store &store_to) {
  const auto turned = [](const Float &value, const Float &first, const Float &second)
                          FOVEA_INLINE_BODY { return multiply_add(value, first, swap_neighbours(value) * second); };
  const auto turn = [&](int64_t i, const auto &load_x, const auto &store_out) FOVEA_INLINE_BODY {
    const Float first = load(table + i);
    const Float second = load(table + rows.width + i);
    unroll<group>([&](auto r) FOVEA_INLINE_BODY {
      store_out(out + r * rows.out_stride + i, turned(load_x(x + r * rows.x_stride + i), first, second));
    });
  };
  int64_t i = 0;
  if constexpr (is_narrow_element<Out>) {
    for (; i + 2 * lanes <= rows.rotary_dim; i += 2 * lanes) {
      const Float first[2] = {load(table + i), load(table + i + lanes)};
      const Float second[2] = {load(table + rows.width + i), load(table + rows.width + i + lanes)};
      unroll<group>([&](auto r) FOVEA_INLINE_BODY {
        const X *from = x + r * rows.x_stride + i;
        store_to.template two<nans_of<X>>(out + r * rows.out_stride + i, turned(load(from), first[0], second[0]),
                                          turned(load(from + lanes), first[1], second[1]));
      });
    }
  }
  for (; i + lanes <= rows.rotary_dim; i += lanes) {
    turn(
        i, [](const X *from) FOVEA_INLINE_BODY { return load(from); }, store_to);
  }
  const int64_t left = rows.rotary_dim - i;
  if (left == 0) return;
  turn(
      i, [&](const X *from) FOVEA_INLINE_BODY { return load_partial(from, left); },
      [&](Out *to, const Float &value) FOVEA_INLINE_BODY { store_partial(to, value, left); });
}

// Likewise, the second features of the pairs half of rotary_dim after the first.
template <int group, class X, class Out, class Store>
FOVEA_INLINE void rotate_halves(const RotatedRows &rows, const X *x, const float *table, Out *out,
                                const Store &store_to) {
  const int64_t half = rows.rotary_dim / 2;
  const auto turn = [&](int64_t i, const auto &load_x, const auto &store_out) FOVEA_INLINE_BODY {
    const Float cosine = load(table + i);
    const Float sine = load(table + rows.width + i);
    unroll<group>([&](auto r) FOVEA_INLINE_BODY {
      const X *from = x + r * rows.x_stride + i;
      Out *to = out + r * rows.out_stride + i;
      const Float a = load_x(from);
      const Float b = load_x(from + half);
      store_out(to, xsimd::fms(a, cosine, b * sine));
      store_out(to + half, multiply_add(b, cosine, a * sine));
    });
  };
  int64_t i = 0;
  if constexpr (is_narrow_element<Out>) {
    for (; i + 2 * lanes <= half; i += 2 * lanes) {
      const Float cosine[2] = {load(table + i), load(table + i + lanes)};
      const Float sine[2] = {load(table + rows.width + i), load(table + rows.width + i + lanes)};
      unroll<group>([&](auto r) FOVEA_INLINE_BODY {
        const X *from = x + r * rows.x_stride + i;
        Out *to = out + r * rows.out_stride + i;
        const Float a[2] = {load(from), load(from + lanes)};
        const Float b[2] = {load(from + half), load(from + half + lanes)};
        store_to.template two<nans_of<X>>(to, xsimd::fms(a[0], cosine[0], b[0] * sine[0]),
                                          xsimd::fms(a[1], cosine[1], b[1] * sine[1]));
        store_to.template two<nans_of<X>>(to + half, multiply_add(b[0], cosine[0], a[0] * sine[0]),
                                          multiply_add(b[1], cosine[1], a[1] * sine[1]));
      });
    }
  }
  for (; i + lanes <= half; i += lanes) {
    turn(
        i, [](const X *from) FOVEA_INLINE_BODY { return load(from); }, store_to);
  }
  const int64_t left = half - i;
  if (left == 0) return;
  turn(
      i, [&](const X *from) FOVEA_INLINE_BODY { return load_partial(from, left); },
      [&](Out *to, const Float &value) FOVEA_INLINE_BODY { store_partial(to, value, left); });
}

// The features that are not turned.
template <class X, class Out>
FOVEA_INLINE void copy_rest(const RotatedRows &rows, const X *x, Out *out) {
  for (int64_t i = rows.rotary_dim; i < rows.head_dim; i += lanes) {
    const int64_t count = min_of(rows.head_dim - i, lanes);
    store_partial(out + i, load_partial(x + i, count), count);
  }
}

// A copy of what is to be done, which stores to out cannot touch, keeps sizes and strides in registers. With rows from
// memory, loads would overtake what was asked for ahead of them.
template <Distance distance>
struct TurnedRows {
  using Type = RotatedRows;
};
template <>
struct TurnedRows<Distance::memory> {
  using Type = const RotatedRows &;
};

template <class X, class Out, bool interleaved, Distance distance, class Store>
FOVEA_INLINE void rotate_rows_with(typename TurnedRows<distance>::Type rows, const Store &store_to) {
  constexpr int together = 4;
  const Upcoming later(rows.x, rows.x_type, rows.x_stride, rows.head_dim, rows.count);
  const Upcoming later_out(rows.out, rows.out_type, rows.out_stride, rows.head_dim, rows.count);
  const int64_t rows_ahead = fetch_rows_ahead<X>(rows.head_dim);
  const auto rotate_group = [&](auto group, int64_t r) FOVEA_INLINE_BODY {
    constexpr int count = decltype(group)::value;
    if (distance >= Distance::far && (same_type<X, Out> || rows.distance >= Distance::far)) {
      later.fetch(r + rows_ahead, count);
      if (Store::reads_first && rows.x != rows.out) later_out.fetch(r + rows_ahead, count);
    }
    const X *x = static_cast<const X *>(rows.x) + r * rows.x_stride;
    const float *table = rows.table + r * rows.table_stride;
    Out *out = static_cast<Out *>(rows.out) + r * rows.out_stride;
    if (interleaved) {
      rotate_neighbours<count>(rows, x, table, out, store_to);
    } else {
      rotate_halves<count>(rows, x, table, out, store_to);
    }
    if (rows.x == rows.out || rows.rotary_dim == rows.head_dim) return;
    for (int64_t i = 0; i < count; ++i) copy_rest(rows, x + i * rows.x_stride, out + i * rows.out_stride);
  };
  int64_t r = 0;
  if (distance == Distance::near && rows.table_stride == 0) {
    for (; r + together <= rows.count; r += together) rotate_group(Index<together>{}, r);
  }
  for (; r < rows.count; ++r) rotate_group(Index<1>{}, r);
}

template <class Element, bool interleaved>
void rotate(const RotatedRows &rows) {
  constexpr Distance near = Distance::near, cached = Distance::cached, far = Distance::far, memory = Distance::memory;
  if (rows.distance == near) return rotate_rows_with<Element, Element, interleaved, near>(rows, CachedStore());
  if (rows.distance == cached) return rotate_rows_with<Element, Element, interleaved, cached>(rows, CachedStore());
  if (rows.distance == far) return rotate_rows_with<Element, Element, interleaved, far>(rows, CachedStore());
  const bool whole = interleaved || rows.rotary_dim / 2 % lanes == 0;
  if (whole && can_stream(rows.stream, static_cast<Element *>(rows.out), rows.out_stride)) {
    return rotate_rows_with<Element, Element, interleaved, memory>(rows, StreamedStore());
  }
  rotate_rows_with<Element, Element, interleaved, memory>(rows, CachedStore());
}

template <class Element>
void rotate_of(const RotatedRows &rows) {
  rows.interleaved ? rotate<Element, true>(rows) : rotate<Element, false>(rows);
}

// From one type to another: one instance for all distances.
template <class X, class Out>
void rotate_mixed(const RotatedRows &rows) {
  rows.interleaved ? rotate_rows_with<X, Out, true, Distance::memory>(rows, CachedStore())
                   : rotate_rows_with<X, Out, false, Distance::memory>(rows, CachedStore());
}

// Rows of other element types are turned in `floats`: rows of `dim` that follow each other, and in them the pairs from
// `pair` on.
FOVEA_INLINE void rotate_widened(const RotatedRows &of, int64_t first_row, int64_t count, int64_t pair, int64_t dim,
                                 int64_t rotary_dim, float *floats) {
  RotatedRows rows = of;
  rows.x = rows.out = floats;
  rows.x_stride = rows.out_stride = rows.head_dim = dim;
  rows.rotary_dim = rotary_dim;
  rows.table += first_row * of.table_stride + (of.interleaved ? 2 * pair : pair);
  rows.count = count;
  rows.distance = Distance::near;
  rows.stream = false;
  rotate_of<float>(rows);
}

// A row longer than a block, in pieces: the first features of half-split pairs beside their second ones.
FOVEA_NOINLINE void rotate_long_row(const RotatedRows &rows, int64_t r, float *floats) {
  const int64_t runs = rows.interleaved ? 1 : 2;
  const int64_t run = rows.rotary_dim / runs;
  const auto at = [&](int64_t i) { return element_at(rows.x, rows.x_type, r * rows.x_stride + i); };
  const auto to = [&](int64_t i) { return element_at(rows.out, rows.out_type, r * rows.out_stride + i); };
  for (int64_t i = 0; i < run; i += most_widened / runs) {
    const int64_t count = min_of(run - i, most_widened / runs);
    widen_rows(at(i), rows.x_type, run, runs, count, floats, count);
    rotate_widened(rows, r, 1, i / (3 - runs), runs * count, runs * count, floats);
    round_rows(floats, runs, count, to(i), rows.out_type, run);
  }
  for (int64_t i = rows.rotary_dim; i < rows.head_dim; i += most_widened) {
    const int64_t count = min_of(rows.head_dim - i, most_widened);
    widen_rows(at(i), rows.x_type, 0, 1, count, floats, 0);
    round_rows(floats, 1, count, to(i), rows.out_type, 0);
  }
}

FOVEA_NOINLINE void rotate_any(const RotatedRows &rows) {
  alignas(64) float floats[most_widened];
  if (rows.head_dim > most_widened) {
    for (int64_t r = 0; r < rows.count; ++r) rotate_long_row(rows, r, floats);
    return;
  }
  for_each_block(rows.count, rows.head_dim, [&](int64_t r, int64_t count, int64_t, int64_t dim) {
    widen_rows(element_at(rows.x, rows.x_type, r * rows.x_stride), rows.x_type, rows.x_stride, count, dim, floats, dim);
    rotate_widened(rows, r, count, 0, dim, rows.rotary_dim, floats);
    round_rows(floats, count, dim, element_at(rows.out, rows.out_type, r * rows.out_stride), rows.out_type,
               rows.out_stride);
  });
}

void rotate_rows(const RotatedRows &rows) {
  const bool done = with_kernel_of(rows.x_type == rows.out_type, rows.x_type,
                                   [&]<class T>(T) FOVEA_INLINE_BODY { rotate_of<typename T::Element>(rows); });
  if (done) return;
  const bool directly =
      with_kernel_of_both(rows.x_type, rows.out_type, [&]<class X, class Out>(X, Out) FOVEA_INLINE_BODY {
        rotate_mixed<typename X::Element, typename Out::Element>(rows);
      });
  if (!directly) rotate_any(rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
