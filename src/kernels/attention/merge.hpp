// Merges attention over parts of the keys into attention over all of them:
//
//   log_sum_exp = max + log sum_s e^{lse_s - max},   out = sum_s e^{lse_s - max} out_s / sum_s e^{lse_s - max}
//
// in the order of the parts, each read once. A part with log-sum-exp -infinity has no keys; its out is not read. No
// part with keys: 0 and -infinity. NaN or +infinity among the log-sum-exps: NaN.
#pragma once

#include <math.h>

#include "kernels/kernel_table.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// body(offset, width): whole registers, then what is left.
template <class Body>
FOVEA_INLINE void for_each_register(int64_t count, const Body &body) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, lanes);
  if (i < count) body(i, count - i);
}

FOVEA_INLINE Float load_up_to(const float *from, int64_t count) {
  return count == lanes ? load(from) : load_partial(from, count);
}
FOVEA_INLINE void store_up_to(float *to, const Float &value, int64_t count) {
  if (count == lanes) {
    store(to, value);
  } else {
    store_partial(to, value, count);
  }
}

void fill_merged(const MergeRow &row, float value, float log_sum_exp) {
  for_each_register(row.value_dim,
                    [&](int64_t i, int64_t width) FOVEA_INLINE_BODY { store_up_to(row.out + i, splat(value), width); });
  if (row.log_sum_exp != nullptr) *row.log_sum_exp = log_sum_exp;
}

void merge_row(const MergeRow &row) {
  float most = -__builtin_inff();
  bool broken = false;
  const float unit = row.sums != nullptr ? row.unit : 1.0f;
  const auto sum_of = [&](int64_t part)
                          FOVEA_INLINE_BODY { return row.sums != nullptr ? row.sums[part * row.lse_stride] : 1.0f; };
  for (int64_t part = 0; part < row.parts; ++part) {
    const float lse = row.lses[part * row.lse_stride];
    broken |= !(lse < __builtin_inff() && sum_of(part) < __builtin_inff());  // NaN too
    if (lse > most) most = lse;
  }
  if (broken) return fill_merged(row, __builtin_nanf(""), __builtin_nanf(""));
  if (most == -__builtin_inff()) return fill_merged(row, 0.0f, most);

  Float sum = zero();  // the same in every lane
  bool first = true;
  for (int64_t part = 0; part < row.parts; ++part) {
    const float lse = row.lses[part * row.lse_stride];
    if (lse == -__builtin_inff()) continue;
    const Float weight = exp_register(splat((lse - most) * unit)) * splat(sum_of(part));
    const float *from = row.outs + part * row.out_stride;
    sum = sum + weight;
    for_each_register(row.value_dim, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
      const Float before = first ? zero() : load_up_to(row.out + i, width);
      store_up_to(row.out + i, multiply_add(weight, load_up_to(from + i, width), before), width);
    });
    first = false;
  }
  const Float factor = 1.0f / sum;
  for_each_register(row.value_dim, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
    store_up_to(row.out + i, load_up_to(row.out + i, width) * factor, width);
  });
  if (row.log_sum_exp != nullptr) *row.log_sum_exp = most * unit + logf(sum.get(0));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
