// Softmax of rows of 16 bits that become rows of the same type: the passes of rowwise/softmax.hpp, a pair of registers at
// a time, with powers as exact as the type needs (math/narrow.hpp). x log2 e - max log2 e is one multiply-add: the rounding
// of max log2 e is the same factor in every power and in their sum. It stays a factor near 1 while the maximum is below
// 2^16; rows with a larger one go as other types do.
//
// Powers are float32 and wait on the stack; rows too long for that have them made twice. Past the caches a row is rounded
// on the stack first, and leaves in whole cache lines.
#pragma once

#include "kernels/math/narrow.hpp"
#include "kernels/rowwise/row_pass.hpp"
#include "kernels/rowwise/softmax.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t fetch_ahead = 2;  // rows, where they come from memory

#if defined(__AVX2__)
constexpr float largest_scaled_max = 0x1p16f;

// A register's worth or less, the others -infinity.
template <class Element>
FOVEA_INLINE Float first_elements(const Element *x, int64_t count) {
  return choose(lanes_below(count), load_partial(x, count), splat(-__builtin_inff()));
}

// The largest of a row; what it is of one with a NaN is not specified.
template <class Element>
FOVEA_INLINE float narrow_max(const Element *x, int64_t count) {
  if (count <= lanes) return horizontal_max(first_elements(x, count));
  Float a, b, most[2];
  if (count < pair_lanes) {
    load_first_of_pair(x, count, minus_infinity_bits<Element>, &most[0], &most[1]);
  } else {
    load_pair(x + count - pair_lanes, &most[0], &most[1]);  // what is seen twice does not change a maximum
  }
  for (int64_t i = 0; i + pair_lanes <= count; i += pair_lanes) {
    load_pair(x + i, &a, &b);
    most[0] = larger(a, most[0]);
    most[1] = larger(b, most[1]);
  }
  return horizontal_max(larger(most[0], most[1]));
}

// The powers of count elements, if there is room for them; returns their sum. They lie as load_pair gives them; a register's
// worth or less at the end goes by itself, in order.
template <class Element>
FOVEA_INLINE float narrow_powers(const Element *x, int64_t count, float row_max, float *powers) {
  const Float shift = splat(-(row_max * log2_of_e));
  Float sums[2] = {zero(), zero()};
  const auto put = [&](const Float &value, int64_t i, Float &sum) FOVEA_INLINE_BODY {
    const Float power = narrow_exp2_of_negative(multiply_add(value, splat(log2_of_e), shift));
    sum = sum + power;
    if (powers != nullptr) store(powers + i, power);
  };
  const auto step = [&](const Float &a, const Float &b, int64_t i) FOVEA_INLINE_BODY {
    put(a, i, sums[0]);
    put(b, i + lanes, sums[1]);
  };
  Float a, b;
  int64_t i = 0;
  for (; i + pair_lanes <= count; i += pair_lanes) {
    load_pair(x + i, &a, &b);
    step(a, b, i);
  }
  const int64_t left = count - i;
  if (left > lanes) {
    load_first_of_pair(x + i, left, minus_infinity_bits<Element>, &a, &b);
    step(a, b, i);
  } else if (left > 0) {
    put(first_elements(x + i, left), i, sums[0]);
  }
  return horizontal_sum(sums[0] + sums[1]);
}

// A register's worth or less of numbers, none of them NaN.
template <class Element>
FOVEA_INLINE void store_last(Element *to, const Float &value, int64_t count) {
  if constexpr (same_type<Element, Bfloat16>) {
    const Halves halves = narrow_bfloat16<Nans::short_ones>(value);
    count == lanes ? store_halves(&to->bits, halves) : store_first_halves(&to->bits, halves, count);
  } else {
    count == lanes ? store(to, value) : store_partial(to, value, count);
  }
}

// A row whose powers wait for their factor.
template <class Element>
struct WaitingRow {
  const float *powers = nullptr;
  Element *out = nullptr;
  int64_t count = 0;  // powers; behind them are `zeros` zeros
  int64_t zeros = 0;
  float factor = 0.0f;

  FOVEA_INLINE void put() const {
    if (factor != factor) {
      fill_run(out, count, factor);
    } else {
      put_powers();
    }
    if (zeros > 0) fill_run(out + count, zeros, 0.0f);
  }

 private:
  FOVEA_INLINE void put_powers() const {
    const Float by = splat(factor);
    int64_t i = 0;
    for (; i + pair_lanes <= count; i += pair_lanes) {
      store_pair(out + i, load(powers + i) * by, load(powers + i + lanes) * by);
    }
    const int64_t left = count - i;
    if (left > lanes) {
      store_first_of_pair(out + i, load(powers + i) * by, load(powers + i + lanes) * by, left);
    } else if (left > 0) {
      store_last(out + i, load(powers + i) * by, left);
    }
  }
};

// A row with more powers than wait: made twice.
template <class Element>
FOVEA_NOINLINE void long_narrow_row(const SoftmaxRow &row, int64_t key_len, float row_max, float *powers) {
  const auto *x = static_cast<const Element *>(row.x);
  auto *out = static_cast<Element *>(row.out);
  const float factor = 1.0f / narrow_powers(x, row.valid_len, row_max, nullptr);
  for (int64_t i = 0; i < row.valid_len; i += most_waiting_powers) {
    const int64_t some = min_of(row.valid_len - i, most_waiting_powers);
    narrow_powers(x + i, some, row_max, powers);
    WaitingRow<Element>{powers, out + i, some, 0, factor}.put();
  }
  if (row.valid_len < key_len) fill_run(out + row.valid_len, key_len - row.valid_len, 0.0f);
}

// The last pair may be half of one. Where it is whole, nothing is masked: that costs stores many cycles.
template <class Element_, int registers>
struct NarrowRow {
  using Element = Element_;
  static constexpr int whole = (registers - 1) / 2;  // pairs before the last
  static constexpr bool single = registers % 2 != 0;
  Float value[2 * whole + 2];
  int64_t left;  // elements of the last pair

  FOVEA_INLINE void load(const SoftmaxRow &row) {
    const auto *x = static_cast<const Element *>(row.x);
    left = row.valid_len - whole * pair_lanes;
    unroll<whole>([&](auto p) FOVEA_INLINE_BODY { load_pair(x + p * pair_lanes, &value[2 * p], &value[2 * p + 1]); });
    x += whole * pair_lanes;
    Float *last = value + 2 * whole;
    if constexpr (single) {
      last[0] = left == lanes ? FOVEA_ISA::load(x) : first_elements(x, left);
    } else if (left == pair_lanes) {
      load_pair(x, &last[0], &last[1]);
    } else {
      load_first_of_pair(x, left, minus_infinity_bits<Element>, &last[0], &last[1]);
    }
  }
  FOVEA_INLINE float max() const {
    Float most = value[0];
    unroll<registers - 1>([&](auto i) FOVEA_INLINE_BODY { most = larger(value[i + 1], most); });
    return horizontal_max(most);
  }
  FOVEA_INLINE static bool takes(float max) { return __builtin_fabsf(max) < largest_scaled_max; }
  FOVEA_INLINE void exponentiate(float max) {
    const Float shift = splat(-(max * log2_of_e));
    unroll<registers>([&](auto i) FOVEA_INLINE_BODY {
      value[i] = narrow_exp2_of_negative(multiply_add(value[i], splat(log2_of_e), shift));
    });
  }
  // As narrow_powers sums: first registers and second registers of pairs.
  FOVEA_INLINE float sum() const {
    Float sums[2] = {value[0], registers > 1 ? value[1] : zero()};
    if constexpr (registers > 2) sums[0] = sums[0] + value[2];
    if constexpr (registers > 3) sums[1] = sums[1] + value[3];
    return horizontal_sum(sums[0] + sums[1]);
  }
  FOVEA_INLINE void put(const SoftmaxRow &row, float factor) const {
    auto *out = static_cast<Element *>(row.out);
    if (factor != factor) return fill_run(out, row.valid_len, factor);
    const Float by = splat(factor);
    unroll<whole>(
        [&](auto p) FOVEA_INLINE_BODY { store_pair(out + p * pair_lanes, value[2 * p] * by, value[2 * p + 1] * by); });
    out += whole * pair_lanes;
    const Float *last = value + 2 * whole;
    if constexpr (single) {
      store_last(out, last[0] * by, left);
    } else if (left == pair_lanes) {
      store_pair(out, last[0] * by, last[1] * by);
    } else {
      store_first_of_pair(out, last[0] * by, last[1] * by, left);
    }
  }
};

template <int registers>
using BrainRow = NarrowRow<Bfloat16, registers>;
template <int registers>
using HalfRow = NarrowRow<Float16, registers>;

template <class Element>
FOVEA_INLINE int64_t narrow_rows_done_in_registers(const SoftmaxRow *rows, int64_t count, int64_t key_len) {
  if constexpr (same_type<Element, Bfloat16>) {
    return rows_done_in_registers<BrainRow>(rows, count, key_len);
  } else {
    return rows_done_in_registers<HalfRow>(rows, count, key_len);
  }
}

// The maximum of a row is under way while the row before waits for its factor.
template <class Element>
FOVEA_INLINE void narrow_rows_in_cache(const SoftmaxRows &rows, float *powers) {
  WaitingRow<Element> before;
  for (int64_t r = 0; r < rows.count; ++r) {
    const SoftmaxRow &row = rows.row[r];
    const int64_t done = narrow_rows_done_in_registers<Element>(&row, rows.count - r, rows.key_len);
    if (done > 0) {
      r += done - 1;
      continue;
    }
    const auto *x = static_cast<const Element *>(row.x);
    const float row_max = narrow_max(x, row.valid_len);
    before.put();
    before = {};
    if (!(__builtin_fabsf(row_max) < largest_scaled_max)) {  // NaN, too
      softmax_row<Element, Element>(row, rows, powers);
    } else if (row.valid_len > most_waiting_powers) {
      long_narrow_row<Element>(row, rows.key_len, row_max, powers);
    } else {
      const float sum = narrow_powers(x, row.valid_len, row_max, powers);
      before = {powers, static_cast<Element *>(row.out), row.valid_len, rows.key_len - row.valid_len, 1.0f / sum};
    }
  }
  before.put();
}

template <class Element>
FOVEA_NOINLINE void send_off(const Element *from, Element *out, int64_t count) {
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) / sizeof(Element) % pair_lanes);
  const int64_t first = past == 0 ? 0 : min_of(pair_lanes - past, count);
  const auto copy = [&](int64_t i, int64_t some) FOVEA_INLINE_BODY {
    if (some > 0) store_first_two_halves(&out[i].bits, load_first_two_halves(&from[i].bits, some, 0), some);
  };
  copy(0, first);
  int64_t i = first;
  for (; i + pair_lanes <= count; i += pair_lanes) stream_two_halves(&out[i].bits, load_two_halves(&from[i].bits));
  copy(i, count - i);
}

constexpr int64_t max_streamed_narrow_row = 8192;

template <class Element>
FOVEA_NOINLINE void narrow_softmax(const SoftmaxRows &rows) {
  alignas(64) float powers[most_waiting_powers + lanes];
  if (!rows.stream || rows.key_len > max_streamed_narrow_row) return narrow_rows_in_cache<Element>(rows, powers);
  alignas(64) Element out[max_streamed_narrow_row];
  for (int64_t r = 0; r < rows.count; ++r) {
    const SoftmaxRow &row = rows.row[r];
    const auto *later = static_cast<const Element *>(rows.row[min_of(r + fetch_ahead, rows.count - 1)].x);
    for (int64_t i = 0; i < row.valid_len; i += 32) __builtin_prefetch(later + i);
    const SoftmaxRow on_stack = {row.x, out, row.valid_len};
    SoftmaxRows one = rows;
    one.row = &on_stack;
    one.count = 1;
    narrow_rows_in_cache<Element>(one, powers);
    send_off(out, static_cast<Element *>(row.out), rows.key_len);
  }
  stream_fence();
}

FOVEA_NOINLINE void narrow_softmax_rows(const SoftmaxRows &rows) {
  rows.x_type == Dtype::bf16 ? narrow_softmax<Bfloat16>(rows) : narrow_softmax<Float16>(rows);
}
#endif

}  // namespace
}  // namespace fovea::FOVEA_ISA
