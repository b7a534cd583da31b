// Merges attention over parts of the keys into attention over all of them:
//
//   log_sum_exp = max + log sum_s e^{lse_s - max},   out = sum_s e^{lse_s - max} out_s / sum_s e^{lse_s - max}
//
// in the order of the parts, each read once. A part with log-sum-exp -infinity has no keys; its out is not read. No
// part with keys: 0 and -infinity. NaN or +infinity among the log-sum-exps: NaN.
#pragma once

#include <math.h>

#include "kernels/elements.hpp"
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

template <class Element>
FOVEA_INLINE Float load_up_to(const Element *from, int64_t count) {
  return count == lanes ? load(from) : load_partial(from, count);
}
template <class Element>
FOVEA_INLINE void store_up_to(Element *to, const Float &value, int64_t count) {
  if (count == lanes) {
    store(to, value);
  } else {
    store_partial(to, value, count);
  }
}

void fill_merged(const MergeRow &row, float value, float log_sum_exp) {
  with_element(row.out_type, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *out = static_cast<typename T::Element *>(row.out);
    for_each_register(row.value_dim,
                      [&](int64_t i, int64_t width) FOVEA_INLINE_BODY { store_up_to(out + i, splat(value), width); });
  });
  if (row.log_sum_exp != nullptr) *row.log_sum_exp = log_sum_exp;
}

// to[i] = sum_s e^{lse_s - most} outs[s][first + i]; returns the sum of those powers, the same in every lane.
FOVEA_INLINE Float merge_columns(const MergeRow &row, int64_t first, int64_t count, float most, float *to) {
  const float unit = row.sums != nullptr ? row.unit : 1.0f;
  Float sum = zero();
  bool initial = true;
  for (int64_t part = 0; part < row.parts; ++part) {
    const float lse = row.lses[part * row.lse_stride];
    if (lse == -__builtin_inff()) continue;
    const float part_sum = row.sums != nullptr ? row.sums[part * row.lse_stride] : 1.0f;
    const Float weight = exp_register(splat((lse - most) * unit)) * splat(part_sum);
    sum = sum + weight;
    with_element(row.outs_type, [&]<class T>(T) FOVEA_INLINE_BODY {
      const auto *from = static_cast<const typename T::Element *>(row.outs) + part * row.out_stride + first;
      for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
        const Float before = initial ? zero() : load_up_to(to + i, width);
        store_up_to(to + i, multiply_add(weight, load_up_to(from + i, width), before), width);
      });
    });
    initial = false;
  }
  return sum;
}

// Sums of narrow results are kept here, so many columns at a time; float32's in out itself.
constexpr int64_t most_merged_columns = 512;

void merge_row(const MergeRow &row) {
  float most = -__builtin_inff();
  bool broken = false;
  for (int64_t part = 0; part < row.parts; ++part) {
    const float lse = row.lses[part * row.lse_stride];
    const float part_sum = row.sums != nullptr ? row.sums[part * row.lse_stride] : 1.0f;
    broken |= !(lse < __builtin_inff() && part_sum < __builtin_inff());  // NaN too
    if (lse > most) most = lse;
  }
  if (broken) return fill_merged(row, __builtin_nanf(""), __builtin_nanf(""));
  if (most == -__builtin_inff()) return fill_merged(row, 0.0f, most);

  float sums[most_merged_columns];
  const int64_t step = is_narrow(row.out_type) ? most_merged_columns : max_of(row.value_dim, 1);
  Float sum = zero();
  int64_t first = 0;
  do {
    const int64_t count = min_of(row.value_dim - first, step);
    float *to = is_narrow(row.out_type) ? sums : static_cast<float *>(row.out);
    sum = merge_columns(row, first, count, most, to);
    const Float factor = 1.0f / sum;
    with_element(row.out_type, [&]<class T>(T) FOVEA_INLINE_BODY {
      auto *out = static_cast<typename T::Element *>(row.out) + first;
      for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
        store_up_to(out + i, load_up_to(to + i, width) * factor, width);
      });
    });
    first += step;
  } while (first < row.value_dim);
  const float unit = row.sums != nullptr ? row.unit : 1.0f;
  if (row.log_sum_exp != nullptr) *row.log_sum_exp = most * unit + logf(sum.get(0));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
