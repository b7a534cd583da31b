// Softmax of one row:  out[j] = e^{x[j] - max} / sum_i e^{x[i] - max}  for j < valid_len, 0 for the other keys.
//
// Three passes over a row that stays in the first-level cache: the maximum; the powers and their sum; the division, as
// a multiplication by 1 / sum. The sum runs over the lanes of a step's registers (kernels/steps.hpp), in the order of
// the keys, so the result depends on the row, valid_len and the instruction set alone. Powers are float32 whatever type
// the result has: where that is narrower, they wait on the stack, and those of a row too long for that are made twice.
// What is left of a last step stays in registers: from a part that has just been stored nothing can be loaded for long.
//
// NaN in the valid part makes the sum NaN, hence the whole valid part, and so does +infinity (infinity - infinity). A
// maximum that lost sight of a NaN does no harm, the sum meets it again.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/math/narrow.hpp"
#include "kernels/rowwise/row_pass.hpp"
#include "kernels/steps.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Powers as exact as float32; where all is bfloat16, times another power of two, which their sum has, too.
template <bool in_pairs, int lifted = 0>
struct RowPowers {
  LiftedExp2<lifted> exp{log2_of_e};
  Float row_max;

  FOVEA_INLINE explicit RowPowers(float max) : row_max(splat(max)) {}
  // Else the row is empty, or all of its results are NaN.
  FOVEA_INLINE static bool take(float max) { return __builtin_fabsf(max) < __builtin_inff(); }
  FOVEA_INLINE Float operator()(const Float &x) const { return exp(x - row_max); }
};

#if defined(__AVX2__)
// As exact as 16 bits need (math/narrow.hpp). x log2 e - max log2 e is one multiply-add: the rounding of max log2 e is
// the same factor in every power and in their sum. It stays a factor near 1 while the maximum is below 2^16.
template <>
struct RowPowers<true> {
  Float shift;

  FOVEA_INLINE explicit RowPowers(float max) : shift(splat(-(max * log2_of_e))) {}
  FOVEA_INLINE static bool take(float max) { return __builtin_fabsf(max) < 0x1p16f; }
  FOVEA_INLINE Float operator()(const Float &x) const {
    return narrow_exp2_of_negative(multiply_add(x, splat(log2_of_e), shift));
  }
};
#endif

// Rows of X that become Out, whose maxima the powers of pairs take or not. Results of bfloat16 go on below the smallest
// power of float32.
template <class X_, class Out_, bool pairs_take = true>
struct SoftmaxKind {
  using X = X_;
  using Out = Out_;
  static constexpr bool in_pairs = pairs_take && rows_go_in_pairs && is_narrow_element<X> && same_type<X, Out>;
  static constexpr int registers = in_pairs ? 2 : 1;  // of a step
  static constexpr bool waits_in_out = same_type<Out, float>;
  static constexpr bool holds = in_pairs || (same_type<X, float> && waits_in_out);  // short rows in registers
  static constexpr bool lifts = !in_pairs && same_type<X, Bfloat16> && same_type<Out, Bfloat16>;
  using Powers = RowPowers<in_pairs, lifts ? bfloat16_lift : 0>;
};

// The sum of a row's powers. Those of whole steps go to `powers`, unless only the sum is wanted, the last ones to
// `last`. After each step beside(i) does something else.
template <class Powers, int registers, bool keeps, class X, class Beside>
FOVEA_INLINE float make_powers(const X *x, int64_t count, float row_max, float *powers, Float *last,
                               const Beside &beside) {
  constexpr int64_t step = registers * lanes;
  const Powers power(row_max);
  Float value[registers], sum[registers];
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { sum[v] = zero(); });
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    read_step<registers>(x + i, value);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
      value[v] = power(value[v]);
      if constexpr (keeps) store(powers + i + v * lanes, value[v]);
      sum[v] = sum[v] + value[v];
    });
    beside(i);
  }
  with_last<registers>(count - i, [&](auto held) FOVEA_INLINE_BODY {
    read_up_to<decltype(held)::value>(x + i, count - i, value);
    unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY {
      value[v] = power(value[v]);
      if constexpr (keeps) last[v] = value[v];
      sum[v] = sum[v] + value[v];
    });
  });
  return horizontal_sum(registers > 1 ? sum[0] + sum[registers - 1] : sum[0]);
}

template <class Powers, int registers, class X>
FOVEA_NOINLINE float row_sum(const X *x, int64_t count, float row_max) {
  return make_powers<Powers, registers, false>(x, count, row_max, nullptr, nullptr, [](int64_t) FOVEA_INLINE_BODY {});
}

// A row whose powers wait for their factor; behind its results are zeros.
template <class Kind>
struct WaitingRow {
  static constexpr int registers = Kind::registers;
  using Out = typename Kind::Out;
  const float *powers = nullptr;
  Out *out = nullptr;
  int64_t count = 0, zeros = 0;
  float factor = 0.0f;
  Float last[registers];

  template <class Beside>
  FOVEA_INLINE void make(const SoftmaxRow &row, int64_t key_len, float row_max, float *room, const Beside &beside) {
    out = static_cast<Out *>(row.out);
    if constexpr (Kind::waits_in_out) room = out;
    powers = room;
    count = row.valid_len;
    zeros = key_len - count;
    const auto *x = static_cast<const typename Kind::X *>(row.x);
    factor = 1.0f / make_powers<typename Kind::Powers, registers, true>(x, count, row_max, room, last, beside);
  }
  FOVEA_INLINE void put() {
    if (count > 0) put_powers();
    if (zeros > 0) fill_run(out + count, zeros, 0.0f);
    count = zeros = 0;
  }

 private:
  FOVEA_INLINE void put_powers() const {  // out may be powers
    if (is_narrow_element<Out> && factor != factor) return fill_run(out, count, factor);
    const Float by = splat(factor);
    const int64_t whole = count / (registers * lanes) * (registers * lanes);
    int64_t i = 0;
    for (; i + 2 * lanes <= whole; i += 2 * lanes) {
      write_two<registers>(out + i, load(powers + i) * by, load(powers + i + lanes) * by);
    }
    if (i < whole) store(out + i, load(powers + i) * by);
    with_last<registers>(count - whole, [&](auto held) FOVEA_INLINE_BODY {
      Float value[registers];
      unroll<decltype(held)::value>([&](auto v) FOVEA_INLINE_BODY { value[v] = last[v] * by; });
      write_up_to<decltype(held)::value>(out + whole, count - whole, value);
    });
  }
};

constexpr int64_t most_waiting_powers = 8192;  // 32 kB: of a longer row they are made twice

template <class Kind>
FOVEA_NOINLINE void softmax_of_long_row(const SoftmaxRow &row, int64_t key_len, float row_max, float *room) {
  const auto *x = static_cast<const typename Kind::X *>(row.x);
  const float factor = 1.0f / row_sum<typename Kind::Powers, Kind::registers>(x, row.valid_len, row_max);
  for (int64_t i = 0; i < row.valid_len; i += most_waiting_powers) {
    const int64_t count = min_of(row.valid_len - i, most_waiting_powers);
    const SoftmaxRow part = {x + i, static_cast<typename Kind::Out *>(row.out) + i, count};
    WaitingRow<Kind> waiting;
    waiting.make(part, i + count < row.valid_len ? count : key_len - i, row_max, room,
                 [](int64_t) FOVEA_INLINE_BODY {});
    waiting.factor = factor;
    waiting.put();
  }
}

template <class Kind>
FOVEA_NOINLINE void softmax_in_cache(const SoftmaxRows &rows, float *room);

FOVEA_INLINE SoftmaxRows one_row(const SoftmaxRows &rows, const SoftmaxRow &row) {
  SoftmaxRows one = rows;
  one.row = &row;
  one.count = 1;
  return one;
}

// A row whose maximum the kind's powers do not take: it is too far from 0 for those of pairs, or the row is empty, or
// NaN or infinity makes it NaN.
template <class Kind>
FOVEA_NOINLINE void softmax_of_unusual_row(const SoftmaxRow &row, const SoftmaxRows &rows, float row_max, float *room) {
  using Out = typename Kind::Out;
  if constexpr (Kind::in_pairs) {
    if (__builtin_fabsf(row_max) < __builtin_inff()) {
      return softmax_in_cache<SoftmaxKind<Out, Out, false>>(one_row(rows, row), room);
    }
  }
  const auto *x = static_cast<const typename Kind::X *>(row.x);
  const bool empty = row_max == -__builtin_inff() &&  // or a NaN hid
                     row_sum<RowPowers<false>, 1>(x, row.valid_len, 0.0f) == 0.0f;
  float value = __builtin_nanf("");
  if (empty && rows.empty_rows == EmptyRows::zero) value = 0.0f;
  if (empty && rows.empty_rows == EmptyRows::uniform) value = 1.0f / static_cast<float>(rows.key_len);
  auto *out = static_cast<Out *>(row.out);
  const int64_t filled = empty ? rows.key_len : row.valid_len;
  fill_run(out, filled, value);
  fill_run(out + filled, rows.key_len - filled, 0.0f);
}

// A row that fits a few registers stays there, and several such rows go together. A row is one long chain, its maximum,
// powers, sum, division, and row after row such chains fill the processor's queues with what has to wait. Results are
// those of longer rows, operation by operation. It has more elements than one register less than `held` holds.
template <class Kind, int held>
struct HeldRow {
  static constexpr int registers = Kind::registers;
  static constexpr int steps = (held - 1) / registers;  // whole ones
  static constexpr int last = steps * registers;        // where the last step begins
  Float value[held];
  int64_t left;  // elements of the last step

  FOVEA_INLINE void read(const SoftmaxRow &row) {
    const auto *x = static_cast<const typename Kind::X *>(row.x);
    left = row.valid_len - last * lanes;
    unroll<steps>([&](auto s)
                      FOVEA_INLINE_BODY { read_step<registers>(x + s * registers * lanes, value + s * registers); });
    read_up_to<held - last>(x + last * lanes, left, value + last);
  }
  FOVEA_INLINE float max() const {
    Float most = value[0];
    unroll<held - 1>([&](auto i) FOVEA_INLINE_BODY { most = larger(value[i + 1], most); });
    return horizontal_max(most);
  }
  FOVEA_INLINE float sum_of_powers(float row_max) {
    const typename Kind::Powers power(row_max);
    Float sum[registers];
    unroll<held>([&](auto i) FOVEA_INLINE_BODY {
      value[i] = power(value[i]);
      sum[i % registers] = i < registers ? value[i] : sum[i % registers] + value[i];
    });
    return horizontal_sum(registers > 1 && held > 1 ? sum[0] + sum[registers - 1] : sum[0]);
  }
  FOVEA_INLINE void put(const SoftmaxRow &row, int64_t key_len, float factor) {
    auto *out = static_cast<typename Kind::Out *>(row.out);
    if (is_narrow_element<typename Kind::Out> && factor != factor) {
      fill_run(out, row.valid_len, factor);
    } else {
      unroll<held>([&](auto i) FOVEA_INLINE_BODY { value[i] = value[i] * splat(factor); });
      unroll<steps>([&](auto s) FOVEA_INLINE_BODY {
        write_up_to<registers>(out + s * registers * lanes, registers * lanes, value + s * registers);
      });
      write_up_to<held - last>(out + last * lanes, left, value + last);
    }
    if (row.valid_len < key_len) fill_run(out + row.valid_len, key_len - row.valid_len, 0.0f);
  }
};

// False, and nothing done, unless all of `count` rows go this way.
template <class Kind, int held, int count>
FOVEA_NOINLINE bool done_together(const SoftmaxRow *rows, int64_t key_len) {
  HeldRow<Kind, held> row[count];
  float value[count];
  bool usual = true;
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { row[r].read(rows[r]); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { usual = Kind::Powers::take(value[r] = row[r].max()) && usual; });
  if (!usual) return false;
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { value[r] = 1.0f / row[r].sum_of_powers(value[r]); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { row[r].put(rows[r], key_len, value[r]); });
  return true;
}

// How many of `count` rows, from the first on, were done: none if that one goes another way.
template <class Kind>
FOVEA_INLINE int64_t rows_done_in_registers(const SoftmaxRow *rows, int64_t count, int64_t key_len) {
  const auto registers_of = [&](int64_t r) FOVEA_INLINE_BODY { return ceil_div(rows[r].valid_len, lanes); };
  const int64_t registers = registers_of(0);
  if (registers > 4) return 0;
  int64_t alike = 1;
  while (alike < min_of(4, count) && registers_of(alike) == registers) ++alike;
  const auto take = [&](auto held, auto at_once) FOVEA_INLINE_BODY -> int64_t {
    constexpr int its = decltype(held)::value;
    if (alike >= at_once && done_together<Kind, its, decltype(at_once)::value>(rows, key_len)) return at_once;
    return done_together<Kind, its, 1>(rows, key_len) ? 1 : 0;
  };
  if (registers == 1) return take(Index<1>{}, Index<4>{});
  if (registers == 2) return take(Index<2>{}, Index<4>{});
  if (registers == 3) return take(Index<3>{}, Index<2>{});
  return registers == 4 ? take(Index<4>{}, Index<2>{}) : 0;
}

// The maximum of a row is under way while the row before waits for its factor. `room`: of most_waiting_powers.
template <class Kind>
FOVEA_NOINLINE void softmax_in_cache(const SoftmaxRows &rows, float *room) {
  WaitingRow<Kind> before;
  for (int64_t r = 0; r < rows.count; ++r) {
    const SoftmaxRow &row = rows.row[r];
    if constexpr (Kind::holds) {
      const int64_t done = rows_done_in_registers<Kind>(&row, rows.count - r, rows.key_len);
      if (done > 0) {
        r += done - 1;
        continue;
      }
    }
    const float row_max = largest_of(static_cast<const typename Kind::X *>(row.x), row.valid_len);
    before.put();
    if (!Kind::Powers::take(row_max)) {
      softmax_of_unusual_row<Kind>(row, rows, row_max, room);
    } else if (!Kind::waits_in_out && row.valid_len > most_waiting_powers) {
      softmax_of_long_row<Kind>(row, rows.key_len, row_max, room);
    } else {
      before.make(row, rows.key_len, row_max, room, [](int64_t) FOVEA_INLINE_BODY {});
    }
  }
  before.put();
}

#if defined(__x86_64__)
constexpr int64_t most_streamed_bytes = 16384;  // of a row: some of them are in use at a time

// Rows whose results will not be read again soon are made on the stack and written past the caches, so that the memory
// written is not read first. One loop works on three rows at once, for arithmetic and memory to overlap: it makes the
// powers of a row, sends off the row before and fetches a later one.
template <class Element>
FOVEA_NOINLINE void softmax_past_caches(const SoftmaxRows &rows, float *room) {
  using Kind = SoftmaxKind<Element, Element>;
  constexpr int64_t rows_ahead = 2;
  alignas(64) char finished[2][most_streamed_bytes];
  LeavingRow leaving;
  for (int64_t r = 0; r < rows.count; ++r) {
    const auto *later = static_cast<const Element *>(rows.row[min_of(r + rows_ahead, rows.count - 1)].x);
    const SoftmaxRow row = {rows.row[r].x, finished[r % 2], rows.row[r].valid_len};
    const bool is_short = row.valid_len <= 4 * lanes;  // is held
    const float row_max = is_short ? 0 : largest_of(static_cast<const Element *>(row.x), row.valid_len);
    if (is_short || !Kind::Powers::take(row_max)) {
      softmax_in_cache<Kind>(one_row(rows, row), room);
      __builtin_prefetch(later);
    } else {
      WaitingRow<Kind> own;
      own.make(row, rows.key_len, row_max, room, [&](int64_t i) FOVEA_INLINE_BODY {
        __builtin_prefetch(later + i);
        leaving.step();
      });
      own.put();
    }
    leaving.finish();
    leaving.start(row.out, rows.row[r].out, rows.key_len * static_cast<int64_t>(sizeof(Element)));
  }
  leaving.finish();
  stream_fence();
}
#endif

void softmax_rows(const SoftmaxRows &rows) {
  alignas(64) float room[most_waiting_powers];
  with_element(rows.x_type, [&]<class X>(Type<X>) FOVEA_INLINE_BODY {
#if defined(__x86_64__)
    if (rows.x_type == rows.out_type && rows.stream && rows.key_len * bytes_of(rows.x_type) <= most_streamed_bytes) {
      return softmax_past_caches<X>(rows, room);
    }
#endif
    with_element(rows.out_type,
                 [&]<class Out>(Type<Out>) FOVEA_INLINE_BODY { softmax_in_cache<SoftmaxKind<X, Out>>(rows, room); });
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
