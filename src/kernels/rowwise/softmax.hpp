// Softmax of one row:  out[j] = e^{x[j] - max} / sum_i e^{x[i] - max}  for j < valid_len, 0 for the other keys.
//
// Three passes over a row that stays in the first-level cache: the maximum; the exponentials and their sum; the
// division, as a multiplication by 1 / sum. The sum runs over the lanes of one register, in the order of the keys, so
// the result depends on the row, valid_len and the instruction set alone.
//
// NaN: one in the valid part makes the sum NaN, hence the whole valid part, and so does +infinity (infinity -
// infinity). A maximum that lost sight of a NaN does no harm, the sum meets it again.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// The largest of count >= 0 elements; -infinity when there is none. Which NaN gets noticed is not specified.
FOVEA_INLINE float run_max(const float *x, int64_t count) {
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

// to[j] = e^{x[j] - row_max} for i <= j < count; returns their sum and that of sum's lanes. to may be x.
// store_last(to, powers, n) puts down the n powers of the last, incomplete register, behind which are zeros.
template <class StoreLast>
FOVEA_INLINE float exponentials_from(int64_t i, const float *x, float *to, int64_t count, const Float &row_max,
                                     Float sum, const StoreLast &store_last) {
  const ScaledExp2 exp(log2_of_e);
  for (; i + lanes <= count; i += lanes) {
    const Float power = exp(load(x + i) - row_max);
    store(to + i, power);
    sum = sum + power;
  }
  if (i < count) {
    const Float power = choose(lanes_below(count - i), exp(load_partial(x + i, count - i) - row_max), zero());
    store_last(to + i, power, count - i);
    sum = sum + power;
  }
  return horizontal_sum(sum);
}

FOVEA_INLINE void scale_run(float *out, int64_t count, float factor) {
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    unroll<2>([&](auto v) FOVEA_INLINE_BODY { store(out + i + v * lanes, load(out + i + v * lanes) * factor); });
  }
  for (; i < count; i += lanes) {
    const int64_t left = min_of(count - i, lanes);
    store_partial(out + i, load_partial(out + i, left) * factor, left);
  }
}

FOVEA_INLINE void fill_run(float *out, int64_t count, float value) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(out + i, splat(value));
  if (i < count) store_partial(out + i, splat(value), count - i);
}

bool every_element_is_minus_infinity(const float *x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!(x[i] == -__builtin_inff())) return false;
  }
  return true;
}

// Fills in a row without scores to weigh; false for any other.
FOVEA_INLINE bool done_as_empty(const SoftmaxRow &row, const SoftmaxRows &rows, float row_max) {
  if (row_max != -__builtin_inff() || !every_element_is_minus_infinity(row.x, row.valid_len)) return false;
  float value = 0.0f;
  if (rows.empty_rows == EmptyRows::uniform) value = 1.0f / static_cast<float>(rows.key_len);
  if (rows.empty_rows == EmptyRows::nan) value = __builtin_nanf("");
  fill_run(row.out, rows.key_len, value);
  return true;
}

void softmax_in_cache(const SoftmaxRows &rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const SoftmaxRow &row = rows.row[r];
    const float row_max = run_max(row.x, row.valid_len);
    if (done_as_empty(row, rows, row_max)) continue;
    const auto store_last = [](float *to, const Float &power, int64_t count)
                                FOVEA_INLINE_BODY { store_partial(to, power, count); };
    const float sum = exponentials_from(0, row.x, row.out, row.valid_len, splat(row_max), zero(), store_last);
    scale_run(row.out, row.valid_len, 1.0f / sum);
    fill_run(row.out + row.valid_len, rows.key_len - row.valid_len, 0.0f);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
