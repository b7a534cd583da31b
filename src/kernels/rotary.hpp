// Rotary position embedding: the pair (x, y) of a row's features becomes (x cos - y sin, x sin + y cos). The cosines
// and sines come from a table that all rows of one position share; a row is read once and written once, and rows are as
// fast as memory. Pairs that lie side by side are turned in place, lanes swapped: there the table holds each cosine
// twice and each sine with both signs. Both conventions compute the same roundings.
#pragma once

#include "kernels/positions_problem.hpp"
#include "kernels/prefetch.hpp"
#include "kernels/row_pass.hpp"
#include "kernels/sincos.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void rotary_table(const RotaryTable &rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    float *first = rows.table + r * 2 * rows.width;
    float *second = first + rows.width;
    for (int64_t pair = 0; pair < rows.pairs; pair += lanes) {
      const SinCos turn = sincos_of(rows.frequencies + pair, rows.positions[r]);
      if (!rows.interleaved) {
        store(first + pair, turn.cosine);
        store(second + pair, turn.sine);
        continue;
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
  }
}

// One row, its pairs side by side. `count` floats at a time are whole pairs.
template <class Store>
FOVEA_INLINE void rotate_neighbours(const RotatedRows &rows, const float *x, const float *table, float *out,
                                    const Store &store_to) {
  const auto turned = [&](const Float &value, int64_t i) FOVEA_INLINE_BODY {
    return multiply_add(value, load(table + i), swap_neighbours(value) * load(table + rows.width + i));
  };
  int64_t i = 0;
  for (; i + lanes <= rows.rotary_dim; i += lanes) store_to(out + i, turned(load(x + i), i));
  const int64_t left = rows.rotary_dim - i;
  if (left > 0) store_partial(out + i, turned(load_partial(x + i, left), i), left);
}

// One row, the second features of the pairs half of rotary_dim after the first.
template <class Store>
FOVEA_INLINE void rotate_halves(const RotatedRows &rows, const float *x, const float *table, float *out,
                                const Store &store_to) {
  const int64_t half = rows.rotary_dim / 2;
  const auto turn = [&](const Float &a, const Float &b, int64_t i, Float *turned_a, Float *turned_b) FOVEA_INLINE_BODY {
    const Float cosine = load(table + i);
    const Float sine = load(table + rows.width + i);
    *turned_a = xsimd::fms(a, cosine, b * sine);
    *turned_b = multiply_add(b, cosine, a * sine);
  };
  Float a;
  Float b;
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    turn(load(x + i), load(x + half + i), i, &a, &b);
    store_to(out + i, a);
    store_to(out + half + i, b);
  }
  const int64_t left = half - i;
  if (left == 0) return;
  turn(load_partial(x + i, left), load_partial(x + half + i, left), i, &a, &b);
  store_partial(out + i, a, left);
  store_partial(out + half + i, b, left);
}

template <bool interleaved, bool in_cache, class Store>
FOVEA_INLINE void rotate_rows_with(const RotatedRows &rows, const Store &store_to) {
  const Upcoming later = {.from = rows.x, .stride = rows.x_stride, .dim = rows.head_dim, .rows = rows.count};
  const Upcoming later_out = {.from = rows.out, .stride = rows.out_stride, .dim = rows.head_dim, .rows = rows.count};
  const int64_t rows_ahead = ceil_div(fetch_floats_ahead, rows.head_dim);
  for (int64_t r = 0; r < rows.count; ++r) {
    if (!in_cache) later.fetch(r + rows_ahead, 1);
    if (!in_cache && Store::reads_first && rows.x != rows.out) later_out.fetch(r + rows_ahead, 1);
    const float *x = rows.x + r * rows.x_stride;
    const float *table = rows.table + r * rows.table_stride;
    float *out = rows.out + r * rows.out_stride;
    if (interleaved) {
      rotate_neighbours(rows, x, table, out, store_to);
    } else {
      rotate_halves(rows, x, table, out, store_to);
    }
    if (x == out) continue;
    for (int64_t i = rows.rotary_dim; i < rows.head_dim; i += lanes) {
      const int64_t count = min_of(rows.head_dim - i, lanes);
      store_partial(out + i, load_partial(x + i, count), count);
    }
  }
}

template <bool interleaved>
void rotate(const RotatedRows &rows) {
  const bool whole = interleaved || rows.rotary_dim / 2 % lanes == 0;
  if (rows.in_cache) return rotate_rows_with<interleaved, true>(rows, CachedStore());
  if (whole && can_stream(rows.stream, rows.out, rows.out_stride)) {
    return rotate_rows_with<interleaved, false>(rows, StreamedStore());
  }
  rotate_rows_with<interleaved, false>(rows, CachedStore());
}

void rotate_rows(const RotatedRows &rows) { rows.interleaved ? rotate<true>(rows) : rotate<false>(rows); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
