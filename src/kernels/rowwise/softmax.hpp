// Softmax of one row:  out[j] = e^{x[j] - max} / sum_i e^{x[i] - max}  for j < valid_len, 0 for the other keys.
//
// Three passes over a row that stays in the first-level cache: the maximum; the exponentials and their sum; the
// division, as a multiplication by 1 / sum. The sum runs over the lanes of a register or two, in the order of the keys, so
// the result depends on the row, valid_len and the instruction set alone. Powers are float32 whatever type the result has:
// where that is narrower, they wait on the stack, and those of a row too long for that are made twice. What is left of a last
// step stays in registers: from a part that has just been stored nothing can be loaded for long.
//
// NaN: one in the valid part makes the sum NaN, hence the whole valid part, and so does +infinity (infinity -
// infinity). A maximum that lost sight of a NaN does no harm, the sum meets it again.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/rowwise/softmax_elements.hpp"

#if defined(__x86_64__)
#include "beyond_xsimd/stream_store.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

// Rows of X that become rows of Out.
template <class X_, class Out_, bool in_pairs_ = goes_in_pairs<X_, Out_>>
struct SoftmaxKind {
  using X = X_;
  using Out = Out_;
  static constexpr bool in_pairs = in_pairs_;
  static constexpr int registers = in_pairs ? 2 : 1;  // of a step
  static constexpr int64_t step = registers * lanes;
  static constexpr bool waits_in_out = same_type<Out, float>;
  static constexpr bool holds = in_pairs || (waits_in_out && same_type<X, float>);  // short rows in registers
  static constexpr int lift = same_type<X, Bfloat16> && same_type<Out, Bfloat16> ? bfloat16_lift : 0;
};

template <bool in_pairs, int lift>
struct PowersOf {
  using Type = FloatPowers<lift>;
};
#if defined(__AVX2__)
template <int lift>
struct PowersOf<true, lift> {
  using Type = ShortPowers;
};
#endif
template <class Kind>
using Powers = typename PowersOf<Kind::in_pairs, Kind::lift>::Type;

template <int registers>
FOVEA_INLINE float sum_of(const Float *sum) {
  if constexpr (registers == 1) return horizontal_sum(sum[0]);
  return horizontal_sum(sum[0] + sum[1]);
}

// The sum of a row's powers. Those of whole steps go to `powers`, unless only the sum is wanted, the last ones to `last`. After
// each step beside(i) does something else.
template <class Power, int registers, bool keeps, class X, class Beside>
FOVEA_INLINE float powers_beside(const X *x, int64_t count, float row_max, float *powers, Float *last,
                                 const Beside &beside) {
  constexpr int64_t step = registers * lanes;
  const Power power(row_max);
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
  if (i < count) {
    read_last<registers>(x + i, count - i, value);
    unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
      value[v] = power(value[v]);
      if constexpr (keeps) last[v] = value[v];
      sum[v] = sum[v] + value[v];
    });
  }
  return sum_of<registers>(sum);
}

template <class Power, int registers, class X>
FOVEA_NOINLINE float row_powers(const X *x, int64_t count, float row_max, float *powers, Float *last) {
  return powers_beside<Power, registers, true>(x, count, row_max, powers, last, [](int64_t) FOVEA_INLINE_BODY {});
}
template <class Power, int registers, class X>
FOVEA_NOINLINE float row_sum(const X *x, int64_t count, float row_max) {
  return powers_beside<Power, registers, false>(x, count, row_max, nullptr, nullptr, [](int64_t) FOVEA_INLINE_BODY {});
}

// out = powers times factor; out may be powers.
template <int registers, class Out>
FOVEA_NOINLINE void put_powers(const float *powers, const Float *last, Out *out, int64_t count, float factor) {
  if (factor != factor) return fill_run(out, count, factor);
  const Float by = splat(factor);
  const int64_t whole = count / (registers * lanes) * (registers * lanes);
  int64_t i = 0;
  for (; i + 2 * lanes <= whole; i += 2 * lanes) {
    write_two<registers>(out + i, load(powers + i) * by, load(powers + i + lanes) * by);
  }
  if (i < whole) store(out + i, load(powers + i) * by);
  if (whole == count) return;
  Float value[registers];
  unroll<registers>([&](auto v) FOVEA_INLINE_BODY { value[v] = last[v] * by; });
  const int64_t left = count - whole;
  if (registers == 2 && left > lanes) return write_up_to<registers>(out + whole, left, value);
  write_up_to<1>(out + whole, left, value);
}

// A row whose powers wait for their factor; behind its results are zeros.
template <class Kind>
struct WaitingRow {
  const float *powers = nullptr;
  typename Kind::Out *out = nullptr;
  int64_t count = 0, zeros = 0;
  float factor = 0.0f;
  Float last[Kind::registers];

  // sum(x, powers, last) makes the powers.
  template <class Sum>
  FOVEA_INLINE void make(const SoftmaxRow &row, int64_t key_len, float *room, const Sum &sum) {
    out = static_cast<typename Kind::Out *>(row.out);
    if constexpr (Kind::waits_in_out) room = out;
    powers = room;
    count = row.valid_len;
    zeros = key_len - count;
    factor = 1.0f / sum(static_cast<const typename Kind::X *>(row.x), room, last);
  }
  FOVEA_INLINE void put() {
    if (count > 0) put_powers<Kind::registers>(powers, last, out, count, factor);
    if (zeros > 0) fill_run(out + count, zeros, 0.0f);
    count = zeros = 0;
  }
};

constexpr int64_t most_waiting_powers = 8192;  // 32 kB

// More powers than wait: made twice.
template <class Kind>
FOVEA_NOINLINE void softmax_of_long_row(const SoftmaxRow &row, int64_t key_len, float row_max, float *room) {
  constexpr int registers = Kind::registers;
  const auto *x = static_cast<const typename Kind::X *>(row.x);
  auto *out = static_cast<typename Kind::Out *>(row.out);
  const float factor = 1.0f / row_sum<Powers<Kind>, registers>(x, row.valid_len, row_max);
  Float last[registers];
  for (int64_t i = 0; i < row.valid_len; i += most_waiting_powers) {
    const int64_t count = min_of(row.valid_len - i, most_waiting_powers);
    row_powers<Powers<Kind>, registers>(x + i, count, row_max, room, last);
    put_powers<registers>(room, last, out + i, count, factor);
  }
  if (row.valid_len < key_len) fill_run(out + row.valid_len, key_len - row.valid_len, 0.0f);
}

template <class Kind>
FOVEA_NOINLINE void softmax_in_cache(const SoftmaxRows &rows, float *room);

// A row whose maximum the kind's powers do not take.
template <class Kind>
FOVEA_NOINLINE void softmax_of_unusual_row(const SoftmaxRow &row, const SoftmaxRows &rows, float row_max, float *room) {
  using X = typename Kind::X;
  using Out = typename Kind::Out;
  if constexpr (Kind::in_pairs) {
    if (FloatPowers<0>::take(row_max)) {
      SoftmaxRows one = rows;
      one.row = &row;
      one.count = 1;
      return softmax_in_cache<SoftmaxKind<X, Out, false>>(one, room);
    }
  }
  auto *out = static_cast<Out *>(row.out);
  if (row_max == -__builtin_inff() && every_element_is_minus_infinity(static_cast<const X *>(row.x), row.valid_len)) {
    float value = 0.0f;
    if (rows.empty_rows == EmptyRows::uniform) value = 1.0f / static_cast<float>(rows.key_len);
    if (rows.empty_rows == EmptyRows::nan) value = __builtin_nanf("");
    return fill_run(out, rows.key_len, value);
  }
  fill_run(out, row.valid_len, __builtin_nanf(""));
  fill_run(out + row.valid_len, rows.key_len - row.valid_len, 0.0f);
}

// ---- rows that fit a few registers -----------------------------------------------------------------------------------
// They stay there, and several rows go together. A row is one long chain, its maximum, powers, sum, division, and row after row
// such chains fill the processor's queues with what has to wait. Results are those of longer rows, operation by operation.

// A row of more elements than one register less holds.
template <class Kind, int held>
struct HeldRow {
  static constexpr int before = (held - 1) / Kind::registers * Kind::registers;  // registers of steps before the last
  static constexpr int of_last = held - before;
  Float value[held];
  int64_t left;  // elements of the last step

  FOVEA_INLINE void read(const SoftmaxRow &row) {
    const auto *x = static_cast<const typename Kind::X *>(row.x);
    left = row.valid_len - before * lanes;
    unroll<before / Kind::registers>([&](auto s) FOVEA_INLINE_BODY {
      read_step<Kind::registers>(x + s * Kind::step, value + s * Kind::registers);
    });
    read_up_to<of_last>(x + before * lanes, left, value + before);
  }
  FOVEA_INLINE float max() const {
    Float most = value[0];
    unroll<held - 1>([&](auto i) FOVEA_INLINE_BODY { most = larger(value[i + 1], most); });
    return horizontal_max(most);
  }
  FOVEA_INLINE float exponentiate(float row_max) {
    const Powers<Kind> power(row_max);
    unroll<held>([&](auto i) FOVEA_INLINE_BODY { value[i] = power(value[i]); });
    Float sum[2] = {value[0], Kind::registers > 1 && held > 1 ? value[held > 1] : zero()};
    unroll<(held > Kind::registers ? held - Kind::registers : 0)>([&](auto i) FOVEA_INLINE_BODY {
      constexpr int v = decltype(i)::value % Kind::registers;
      sum[v] = sum[v] + value[i + Kind::registers];
    });
    return sum_of<Kind::registers>(sum);
  }
  FOVEA_INLINE void put(const SoftmaxRow &row, int64_t key_len, float factor) {
    auto *out = static_cast<typename Kind::Out *>(row.out);
    if (factor != factor) {
      fill_run(out, row.valid_len, factor);
    } else {
      unroll<held>([&](auto i) FOVEA_INLINE_BODY { value[i] = value[i] * splat(factor); });
      unroll<before / Kind::registers>([&](auto s) FOVEA_INLINE_BODY {
        write_up_to<Kind::registers>(out + s * Kind::step, Kind::step, value + s * Kind::registers);
      });
      write_up_to<of_last>(out + before * lanes, left, value + before);
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
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { value[r] = row[r].max(); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { usual = usual && Powers<Kind>::take(value[r]); });
  if (!usual) return false;
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { value[r] = 1.0f / row[r].exponentiate(value[r]); });
  unroll<count>([&](auto r) FOVEA_INLINE_BODY { row[r].put(rows[r], key_len, value[r]); });
  return true;
}

constexpr int64_t most_held = 4 * lanes;  // elements

// How many of `count` rows, from the first on, were done: none if that one goes another way.
template <class Kind>
FOVEA_INLINE int64_t rows_done_in_registers(const SoftmaxRow *rows, int64_t count, int64_t key_len) {
  const auto registers_of = [&](int64_t r) FOVEA_INLINE_BODY { return ceil_div(rows[r].valid_len, lanes); };
  const int64_t registers = registers_of(0);
  if (registers > most_held / lanes) return 0;
  int64_t alike = 1;
  while (alike < min_of(4, count) && registers_of(alike) == registers) ++alike;
  const auto take = [&](auto held, auto at_once) FOVEA_INLINE_BODY -> int64_t {
    constexpr int its = decltype(held)::value;
    if (alike >= at_once && done_together<Kind, its, decltype(at_once)::value>(rows, key_len)) return at_once;
    return done_together<Kind, its, 1>(rows, key_len) ? 1 : 0;
  };
  switch (registers) {
    case 1: return take(Index<1>{}, Index<4>{});
    case 2: return take(Index<2>{}, Index<4>{});
    case 3: return take(Index<3>{}, Index<2>{});
    case 4: return take(Index<4>{}, Index<2>{});
    default: return 0;
  }
}

// ---- rows ------------------------------------------------------------------------------------------------------------

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
    const float row_max = row_max_of(static_cast<const typename Kind::X *>(row.x), row.valid_len);
    before.put();
    if (!Powers<Kind>::take(row_max)) {
      softmax_of_unusual_row<Kind>(row, rows, row_max, room);
    } else if (!Kind::waits_in_out && row.valid_len > most_waiting_powers) {
      softmax_of_long_row<Kind>(row, rows.key_len, row_max, room);
    } else {
      before.make(row, rows.key_len, room, [&](const auto *x, float *powers, Float *last) FOVEA_INLINE_BODY {
        return row_powers<Powers<Kind>, Kind::registers>(x, row.valid_len, row_max, powers, last);
      });
    }
  }
  before.put();
}

#if defined(__x86_64__)
constexpr int64_t most_streamed_bytes = 16384;  // of a row: some of them are in use at a time

// A row on its way past the caches, in whole registers.
struct LeavingRow {
  const char *from = nullptr;
  char *to = nullptr;
  int64_t at = 0, whole_end = 0, end = 0;  // bytes

  FOVEA_INLINE void start(const void *row, void *out, int64_t bytes) {
    from = static_cast<const char *>(row);
    to = static_cast<char *>(out);
    const auto size = static_cast<int64_t>(sizeof(Float));
    at = min_of((size - static_cast<int64_t>(reinterpret_cast<uintptr_t>(out) % sizeof(Float))) % size, bytes);
    whole_end = at + (bytes - at) / size * size;
    end = bytes;
    memcpy(to, from, static_cast<size_t>(at));
  }
  FOVEA_INLINE void step() {
    if (at == whole_end) return;
    stream_store(reinterpret_cast<float *>(to + at), load(reinterpret_cast<const float *>(from + at)));
    at += static_cast<int64_t>(sizeof(Float));
  }
  FOVEA_INLINE void finish() {
    while (at < whole_end) step();
    memcpy(to + at, from + at, static_cast<size_t>(end - at));
    at = whole_end = end;
  }
};

// Rows whose results will not be read again soon are made on the stack and written past the caches, so that the memory written
// is not read first. One loop works on three rows at once, for arithmetic and memory to overlap: it makes the powers of a row,
// sends off the row before and fetches a later one.
template <class Kind>
FOVEA_NOINLINE void softmax_past_caches(const SoftmaxRows &rows, float *room) {
  using Element = typename Kind::Out;
  constexpr int64_t rows_ahead = 2;
  alignas(64) char finished[2][most_streamed_bytes];
  LeavingRow leaving;
  for (int64_t r = 0; r < rows.count; ++r) {
    const auto *later = static_cast<const Element *>(rows.row[min_of(r + rows_ahead, rows.count - 1)].x);
    const SoftmaxRow row = {rows.row[r].x, finished[r % 2], rows.row[r].valid_len};
    const float row_max = row.valid_len <= most_held ? 0 : row_max_of(static_cast<const Element *>(row.x), row.valid_len);
    if (row.valid_len <= most_held || !Powers<Kind>::take(row_max)) {
      SoftmaxRows one = rows;
      one.row = &row;
      one.count = 1;
      softmax_in_cache<Kind>(one, room);
      __builtin_prefetch(later);
    } else {
      WaitingRow<Kind> own;
      own.make(row, rows.key_len, room, [&](const Element *x, float *powers, Float *last) FOVEA_INLINE_BODY {
        return powers_beside<Powers<Kind>, Kind::registers, true>(x, row.valid_len, row_max, powers, last,
                                                                  [&](int64_t i) FOVEA_INLINE_BODY {
                                                                    __builtin_prefetch(later + i);
                                                                    leaving.step();
                                                                  });
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

// Results of another type than x's do not go past the caches.
void softmax_rows(const SoftmaxRows &rows) {
  alignas(64) float room[most_waiting_powers];
#if defined(__x86_64__)
  const int64_t bytes = rows.key_len * (is_narrow(rows.x_type) ? 2 : 4);
  if (rows.stream && bytes <= most_streamed_bytes && rows.x_type == rows.out_type) {
    return with_element(rows.x_type, [&]<class T>(T) FOVEA_INLINE_BODY {
      softmax_past_caches<SoftmaxKind<typename T::Element, typename T::Element>>(rows, room);
    });
  }
#endif
  with_element(rows.x_type, [&]<class X>(X) FOVEA_INLINE_BODY {
    with_element(rows.out_type, [&]<class Out>(Out) FOVEA_INLINE_BODY {
      softmax_in_cache<SoftmaxKind<typename X::Element, typename Out::Element>>(rows, room);
    });
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
