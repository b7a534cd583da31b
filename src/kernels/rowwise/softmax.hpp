// Softmax of one row:  out[j] = e^{x[j] - max} / sum_i e^{x[i] - max}  for j < valid_len, 0 for the other keys.
//
// Three passes over a row that stays in the first-level cache: the maximum; the exponentials and their sum; the
// division, as a multiplication by 1 / sum. The sum runs over the lanes of one register, in the order of the keys, so
// the result depends on the row, valid_len and the instruction set alone. Powers are float32 whatever type the result has:
// where that is narrower, they wait on the stack, and those of a row too long for that are made twice.
//
// NaN: one in the valid part makes the sum NaN, hence the whole valid part, and so does +infinity (infinity -
// infinity). A maximum that lost sight of a NaN does no harm, the sum meets it again.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/rowwise/softmax_short.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// The largest of count >= 0 elements; -infinity when there is none. Which NaN gets noticed is not specified.
template <class X>
FOVEA_INLINE float run_max(const X *x, int64_t count) {
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

// What makes the powers of rows: 2^(factor * d), of bfloat16 throughout times another power of two, which their sum has, too.
template <class X, class Out>
using RowExp2 = LiftedExp2<same_type<X, Bfloat16> && same_type<Out, Bfloat16> ? bfloat16_lift : 0>;

// store_to(j, powers, n) gets e^{x[j] - row_max}, as Exp2 makes it, for i <= j < count, n of them at a time: whole
// registers, then the last, incomplete one, behind which are zeros. Returns the sum of all and of sum's lanes.
template <class Exp2, class X, class Store>
FOVEA_INLINE float exponentials_from(int64_t i, const X *x, int64_t count, const Float &row_max, Float sum,
                                     const Store &store_to) {
  const Exp2 exp(log2_of_e);
  for (; i + lanes <= count; i += lanes) {
    const Float power = exp(load(x + i) - row_max);
    store_to(i, power, lanes);
    sum = sum + power;
  }
  if (i < count) {
    const Float power = choose(lanes_below(count - i), exp(load_partial(x + i, count - i) - row_max), zero());
    store_to(i, power, count - i);
    sum = sum + power;
  }
  return horizontal_sum(sum);
}

// out[j] = powers[j] * factor, none of them NaN where out is narrow; out may be powers.
template <class Out>
FOVEA_INLINE void scale_run(const float *powers, Out *out, int64_t count, float factor) {
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    store_two<Nans::short_ones>(out + i, load(powers + i) * factor, load(powers + i + lanes) * factor);
  }
  for (; i < count; i += lanes) {
    const int64_t left = min_of(count - i, lanes);
    store_partial(out + i, load_partial(powers + i, left) * factor, left);
  }
}

FOVEA_INLINE bool is_minus_infinity(float x) { return x == -__builtin_inff(); }
FOVEA_INLINE bool is_minus_infinity(Bfloat16 x) { return x.bits == 0xff80; }
FOVEA_INLINE bool is_minus_infinity(Float16 x) { return x.bits == 0xfc00; }

template <class X>
bool every_element_is_minus_infinity(const X *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!is_minus_infinity(x[i])) return false;
  }
  return true;
}

// Fills in a row without scores to weigh; false for any other.
template <class X, class Out>
FOVEA_INLINE bool done_as_empty(const SoftmaxRow &row, const SoftmaxRows &rows, float row_max) {
  if (row_max != -__builtin_inff()) return false;
  if (!every_element_is_minus_infinity(static_cast<const X *>(row.x), row.valid_len)) return false;
  float value = 0.0f;
  if (rows.empty_rows == EmptyRows::uniform) value = 1.0f / static_cast<float>(rows.key_len);
  if (rows.empty_rows == EmptyRows::nan) value = __builtin_nanf("");
  fill_run(static_cast<Out *>(row.out), rows.key_len, value);
  return true;
}

template <int registers>
struct FloatRow {
  using Element = float;
  static constexpr int last = registers - 1;
  Float value[registers];
  int64_t left;  // elements of the last register

  FOVEA_INLINE void load(const SoftmaxRow &row) {
    const auto *x = static_cast<const float *>(row.x);
    left = row.valid_len - last * lanes;
    unroll<last>([&](auto i) FOVEA_INLINE_BODY { value[i] = FOVEA_ISA::load(x + i * lanes); });
    value[last] = choose(lanes_below(left), load_partial(x + last * lanes, left), splat(-__builtin_inff()));
  }
  FOVEA_INLINE float max() const {
    Float most = value[last];
    unroll<last>([&](auto i) FOVEA_INLINE_BODY { most = larger(most, value[i]); });
    return horizontal_max(most);
  }
  FOVEA_INLINE static bool takes(float max) { return __builtin_fabsf(max) < __builtin_inff(); }
  FOVEA_INLINE void exponentiate(float max) {
    const ScaledExp2 exp(log2_of_e);
    unroll<registers>([&](auto i) FOVEA_INLINE_BODY { value[i] = exp(value[i] - splat(max)); });
    value[last] = choose(lanes_below(left), value[last], zero());
  }
  FOVEA_INLINE float sum() const {
    Float sum = value[0];
    unroll<last>([&](auto i) FOVEA_INLINE_BODY { sum = sum + value[i + 1]; });
    return horizontal_sum(sum);
  }
  FOVEA_INLINE void put(const SoftmaxRow &row, float factor) const {
    auto *out = static_cast<float *>(row.out);
    unroll<last>([&](auto i) FOVEA_INLINE_BODY { store(out + i * lanes, value[i] * factor); });
    const Float of_last = value[last] * factor;
    left == lanes ? store(out + last * lanes, of_last) : store_partial(out + last * lanes, of_last, left);
  }
};

void softmax_in_cache(const SoftmaxRows &rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const SoftmaxRow &row = rows.row[r];
    const int64_t done = rows_done_in_registers<FloatRow>(&row, rows.count - r, rows.key_len);
    if (done > 0) {
      r += done - 1;
      continue;
    }
    const auto *x = static_cast<const float *>(row.x);
    auto *out = static_cast<float *>(row.out);
    const float row_max = run_max(x, row.valid_len);
    if (done_as_empty<float, float>(row, rows, row_max)) continue;
    // What is left of a last register stays in one: from a part that has just been stored nothing can be loaded for long.
    Float last = zero();
    const float sum = exponentials_from<ScaledExp2>(0, x, row.valid_len, splat(row_max), zero(),
                                                    [&](int64_t i, const Float &power, int64_t left) FOVEA_INLINE_BODY {
                                                      left == lanes ? store(out + i, power) : void(last = power);
                                                    });
    const int64_t whole = row.valid_len / lanes * lanes;
    scale_run(out, out, whole, 1.0f / sum);
    if (whole < row.valid_len) store_partial(out + whole, last * (1.0f / sum), row.valid_len - whole);
    if (row.valid_len < rows.key_len) fill_run(out + row.valid_len, rows.key_len - row.valid_len, 0.0f);
  }
}

// ---- other types -----------------------------------------------------------------------------------------------------

constexpr int64_t most_waiting_powers = 8192;  // 32 kB

FOVEA_NOINLINE inline float row_max_of(const float *x, int64_t count) { return run_max(x, count); }

// Of 16 bits many at a time, as integers: the bits of a negative number turned over, all are in order. A NaN comes behind
// the infinity of its sign.
template <class X>
FOVEA_NOINLINE float row_max_of(const X *x, int64_t count) {
  using Integers = xsimd::batch<int16_t, Arch>;
  constexpr auto width = static_cast<int64_t>(Integers::size);
  if (count < width) return run_max(x, count);
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

// The powers of count <= most_waiting_powers elements; returns their sum.
template <class Exp2, class X>
FOVEA_NOINLINE float row_powers(const X *x, int64_t count, float row_max, float *powers) {
  return exponentials_from<Exp2>(0, x, count, splat(row_max), zero(),
                                 [&](int64_t i, const Float &power, int64_t)
                                     FOVEA_INLINE_BODY { store(powers + i, power); });
}

// The same of a longer row: the sum alone.
template <class Exp2, class X>
FOVEA_NOINLINE float row_sum(const X *x, int64_t count, float row_max) {
  return exponentials_from<Exp2>(0, x, count, splat(row_max), zero(),
                                 [](int64_t, const Float &, int64_t) FOVEA_INLINE_BODY {});
}

template <class Out>
FOVEA_NOINLINE void put_powers(const float *powers, Out *out, int64_t count, float factor) {
  scale_run(powers, out, count, factor);
}

// `powers` has room for most_waiting_powers floats and a register.
template <class X, class Out>
FOVEA_INLINE void softmax_row(const SoftmaxRow &row, const SoftmaxRows &rows, float *powers) {
  const auto *x = static_cast<const X *>(row.x);
  auto *out = static_cast<Out *>(row.out);
  const float row_max = row_max_of(x, row.valid_len);
  if (done_as_empty<X, Out>(row, rows, row_max)) return;
  using Exp2 = RowExp2<X, Out>;
  const bool waits = row.valid_len <= most_waiting_powers;
  const float sum =
      waits ? row_powers<Exp2>(x, row.valid_len, row_max, powers) : row_sum<Exp2>(x, row.valid_len, row_max);
  const float factor = 1.0f / sum;
  if (factor != factor) {
    fill_run(out, row.valid_len, factor);
  } else if (waits) {
    put_powers(powers, out, row.valid_len, factor);
  } else {
    for (int64_t i = 0; i < row.valid_len; i += most_waiting_powers) {
      const int64_t count = min_of(row.valid_len - i, most_waiting_powers);
      row_powers<Exp2>(x + i, count, row_max, powers);
      put_powers(powers, out + i, count, factor);
    }
  }
  if (row.valid_len < rows.key_len) fill_run(out + row.valid_len, rows.key_len - row.valid_len, 0.0f);
}

FOVEA_NOINLINE void softmax_of_types(const SoftmaxRows &rows) {
  alignas(64) float powers[most_waiting_powers + lanes];
  with_element(rows.x_type, [&]<class X>(X) FOVEA_INLINE_BODY {
    with_element(rows.out_type, [&]<class Out>(Out) FOVEA_INLINE_BODY {
      for (int64_t r = 0; r < rows.count; ++r) {
        softmax_row<typename X::Element, typename Out::Element>(rows.row[r], rows, powers);
      }
    });
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
