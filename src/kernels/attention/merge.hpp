// Merges attention over parts of the keys into attention over all of them:
//
//   log_sum_exp = max + log sum_s e^{lse_s - max},   out = sum_s e^{lse_s - max} out_s / sum_s e^{lse_s - max}
//
// in the order of the parts, each read once. A part with log-sum-exp -infinity has no keys; its out is not read. No
// part with keys: 0 and -infinity. NaN among the log-sum-exps: NaN. +infinity among them: out NaN, infinity / infinity,
// and +infinity.
//
// Sums may leave float32's range where their quotients do not: a row that comes out not finite although its parts are
// is merged again, with weights times 2^-40 (see attention/repair.hpp).
#pragma once

#include <math.h>

#include "kernels/attention/source.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/pieces.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void fill_merged(const MergeRow &row, float value, float log_sum_exp) {
  with_element(row.out_type, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *out = static_cast<typename T::Element *>(row.out);
    for_each_register(row.value_dim,
                      [&](int64_t i, int64_t width) FOVEA_INLINE_BODY { store_up_to(out + i, splat(value), width); });
  });
  if (row.log_sum_exp != nullptr) *row.log_sum_exp = log_sum_exp;
}

// Which parts have keys, and their weights e^{lse_s - most}.
struct PartWeights {
  static constexpr int64_t most_parts = 32;
  float share = 1.0f;  // of each weight
  int64_t count;
  int64_t part[most_parts];
  alignas(64) float weight[most_parts];

  // Those from part `first` on.
  FOVEA_NOINLINE void make(const MergeRow &row, int64_t first, float most) {
    const float unit = row.sums != nullptr ? row.unit : 1.0f;
    const int64_t last = min_of(row.parts, first + most_parts);
    const bool few = last - first <= 4;  // a register of them would wait until each has been written
    count = 0;
    for (int64_t s = first; s < last; ++s) {
      const float lse = row.lses[s * row.lse_stride];
      if (lse == -__builtin_inff()) continue;
      const float exponent = (lse - most) * unit;
      weight[count] = few ? exp_register(splat(exponent)).get(0) : exponent;
      part[count++] = s;
    }
    if (!few) {
      for (int64_t n = count; n % lanes != 0; ++n) weight[n] = 0.0f;
      for (int64_t n = 0; n < count; n += lanes) store(weight + n, exp_register(load(weight + n)));
    }
    if (row.sums != nullptr) {
      for (int64_t n = 0; n < count; ++n) weight[n] = weight[n] * row.sums[part[n] * row.lse_stride];
    }
    for (int64_t n = 0; share != 1.0f && n < count; ++n) weight[n] = weight[n] * share;
  }
};

// The weights, at least of the first parts, are there already; those of more parts are made for each block of columns.
// Returns whether all is finite.
template <class Part, class Out>
FOVEA_NOINLINE bool put_merged(const MergeRow &row, float most, PartWeights &weights, const Float &factor) {
  const auto *outs = static_cast<const Part *>(row.outs);
  auto *out = static_cast<Out *>(row.out);
  Float check = zero();  // NaN from the first that is not
  const auto sum_columns = [&](auto vectors, int64_t column, Float *sum, const auto &load_part) FOVEA_INLINE_BODY {
    unroll<decltype(vectors)::value>([&](auto v) FOVEA_INLINE_BODY { sum[v] = zero(); });
    for (int64_t first = 0; first < row.parts; first += PartWeights::most_parts) {
      if (row.parts > PartWeights::most_parts) weights.make(row, first, most);
      for (int64_t n = 0; n < weights.count; ++n) {
        const Part *from = outs + weights.part[n] * row.out_stride + column;
        const Float weight(weights.weight[n]);
        unroll<decltype(vectors)::value>(
            [&](auto v) FOVEA_INLINE_BODY { sum[v] = multiply_add(weight, load_part(from + v * lanes), sum[v]); });
      }
    }
    unroll<decltype(vectors)::value>([&](auto v) FOVEA_INLINE_BODY {
      check = multiply_add(sum[v], zero(), check);
      sum[v] = sum[v] * factor;
    });
  };
  const auto load_whole = [](const Part *from) FOVEA_INLINE_BODY { return load(from); };
  int64_t i = 0;
  for (; i + 4 * lanes <= row.value_dim; i += 4 * lanes) {
    Float sum[4];
    sum_columns(Index<4>{}, i, sum, load_whole);
    store_two<nans_of<Part>>(out + i, sum[0], sum[1]);
    store_two<nans_of<Part>>(out + i + 2 * lanes, sum[2], sum[3]);
  }
  for (; i < row.value_dim; i += lanes) {
    Float sum[1];
    const int64_t left = min_of(row.value_dim - i, lanes);
    sum_columns(Index<1>{}, i, sum, [&](const Part *from) FOVEA_INLINE_BODY { return load_up_to(from, left); });
    store_up_to(out + i, sum[0], left);
  }
  return !xsimd::any(xsimd::isnan(check));
}

FOVEA_NOINLINE bool parts_are_finite(const MergeRow &row) {
  bool finite = true;
  for (int64_t s = 0; finite && s < row.parts; ++s) {
    if (row.lses[s * row.lse_stride] == -__builtin_inff()) continue;
    finite =
        rows_are_finite(element_at(row.outs, row.outs_type, s * row.out_stride), row.outs_type, 0, 1, row.value_dim);
  }
  return finite;
}

void merge_row(const MergeRow &row) {
  float most = -__builtin_inff();
  bool broken = false, nan = false;
  for (int64_t part = 0; part < row.parts; ++part) {
    const float lse = row.lses[part * row.lse_stride];
    const float part_sum = row.sums != nullptr ? row.sums[part * row.lse_stride] : 1.0f;
    broken |= !(lse < __builtin_inff() && part_sum < __builtin_inff());  // NaN too
    nan |= lse != lse;
    if (lse > most) most = lse;
  }
  if (broken) {
    return fill_merged(row, __builtin_nanf(""), most == __builtin_inff() && !nan ? most : __builtin_nanf(""));
  }
  if (most == -__builtin_inff()) return fill_merged(row, 0.0f, most);

  PartWeights weights;
  float sum = 0.0f;
  for (int64_t first = 0; first < row.parts; first += PartWeights::most_parts) {
    weights.make(row, first, most);
    for (int64_t n = 0; n < weights.count; ++n) sum += weights.weight[n];
  }
  const auto put = [&](const Float &factor) FOVEA_INLINE_BODY {
    bool finite = true;
    with_element(row.outs_type, [&]<class Part>(Part) FOVEA_INLINE_BODY {
      with_element(row.out_type, [&]<class Out>(Out) FOVEA_INLINE_BODY {
        finite = put_merged<typename Part::Element, typename Out::Element>(row, most, weights, factor);
      });
    });
    return finite;
  };
  const Float factor = 1.0f / splat(sum);
  for (const float share : {1.0f, 0x1p-40f}) {
    weights.share = share;
    if (share != 1.0f) weights.make(row, 0, most);
    if (put(factor / splat(share)) || !parts_are_finite(row)) break;
  }
  const float unit = row.sums != nullptr ? row.unit : 1.0f;
  if (row.log_sum_exp != nullptr) *row.log_sum_exp = most * unit + logf(sum);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
