// Dropout (Srivastava et al. 2014): the element (b, h, i, j) is dropped iff word j % 4 of Philox4x32-10 at the counter
// (j / 4, i, h, b), keyed by the seed, is below the threshold; what is kept is multiplied by the scale. Batch entry b,
// head h, row i, column j: nothing else matters, so the same are dropped however the work is cut up.
#pragma once

#include "beyond_xsimd/pairs.hpp"
#include "kernels/random/dropout_problem.hpp"
#include "kernels/random/philox.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// xsimd 13 compares unsigned AVX2 registers half by half; signed ones it does not.
FOVEA_INLINE Mask is_below(const Word &random, uint32_t threshold) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  constexpr uint32_t sign = 0x80000000;
  const Int moved(static_cast<int32_t>(threshold ^ sign));
  return xsimd::batch_bool_cast<float>(xsimd::bitwise_cast<int32_t>(random ^ Word(sign)) < moved);
#else
  return xsimd::batch_bool_cast<float>(random < Word(threshold));
#endif
}

FOVEA_INLINE Float drop(const Float &value, const Word &random, const Dropout &dropout) {
  return choose(is_below(random, dropout.threshold), zero(), value * splat(dropout.scale));
}

// How many columns of one row drop_factors() serves: every lane's counter is for four.
constexpr int64_t drop_factors_width = 4 * lanes;

FOVEA_INLINE Word lane_numbers() {
  alignas(64) uint32_t number[lanes];
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { number[i] = static_cast<uint32_t>(i); });
  return Word::load_aligned(number);
}

// What to multiply columns [column, column + 4 * lanes) of row i by, in order: 0 or the scale. column is a multiple of
// 4.
FOVEA_INLINE void drop_factors(const Dropout &dropout, const PhiloxKey &key, int64_t batch, int64_t head, int64_t row,
                               int64_t column, Float (&factor)[4]) {
  const SplitWord i = {{splat_word(static_cast<uint32_t>(row)), splat_word(static_cast<uint32_t>(row))}};
  const SplitWord h = {{splat_word(static_cast<uint32_t>(head)), splat_word(static_cast<uint32_t>(head))}};
  const SplitWord b = {{splat_word(static_cast<uint32_t>(batch)), splat_word(static_cast<uint32_t>(batch))}};
  PhiloxCounters counters = {{split(Word(static_cast<uint32_t>(column / 4)) + lane_numbers()), i, h, b}};
  Word random[4];
  counters.finish<0>(key, random);
  Float kept[4];  // of word w: columns w, 4 + w, ...
  unroll<4>([&](auto w) FOVEA_INLINE_BODY { kept[w] = drop(splat(1.0f), random[w], dropout); });
  Float even[2];
  Float odd[2];
  interleave(kept[0], kept[2], &even[0], &even[1]);
  interleave(kept[1], kept[3], &odd[0], &odd[1]);
  interleave(even[0], odd[0], &factor[0], &factor[1]);
  interleave(even[1], odd[1], &factor[2], &factor[3]);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
