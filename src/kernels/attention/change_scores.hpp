// Turns raw scores into logits: scale, soft-cap, bias, ALiBi, masks, on a tile of scores[key][row]. Each option is one
// pass over the tile, which lies in the first-level cache; options that are off cost nothing. Masked scores become
// -infinity.
#pragma once

#include <math.h>

#include "kernels/attention/logit_terms.hpp"
#include "kernels/math/tanh.hpp"

namespace fovea::FOVEA_ISA {
namespace {

FOVEA_INLINE Mask as_float_mask(const xsimd::batch_bool<int32_t, Arch> &mask) {
  return xsimd::batch_bool_cast<float>(mask);
}

FOVEA_INLINE void apply_softcap(const ScoreTile &tile, float softcap) {
  const Float cap(softcap);
  const Float inverse(1.0f / softcap < __FLT_MAX__ ? 1.0f / softcap : __FLT_MAX__);  // of a subnormal one infinite
  tile.for_each([&](const Float &score, int64_t, int64_t)
                    FOVEA_INLINE_BODY { return cap * tanh_register(score * inverse); });
}

// score - slope * |position - key|
FOVEA_INLINE void apply_alibi(const ScoreTile &tile, const LogitRows &rows) {
  tile.for_each([&](const Float &score, int64_t j, int64_t r) FOVEA_INLINE_BODY {
    const Int ahead = Int::load_aligned(rows.position + r) - Int(static_cast<int32_t>(tile.key + j));
    const Float distance = xsimd::to_float(xsimd::abs(ahead));
    return multiply_add(-load(rows.slope + r), distance, score);
  });
}

FOVEA_INLINE void apply_ranges(const ScoreTile &tile, const LogitRows &rows) {
  tile.for_each([&](const Float &score, int64_t j, int64_t r) FOVEA_INLINE_BODY {
    const Int key(static_cast<int32_t>(tile.key + j));
    const auto attended = (key >= Int::load_aligned(rows.first_key + r)) & (key < Int::load_aligned(rows.last_key + r));
    return choose(as_float_mask(attended), score, minus_infinity());
  });
}

FOVEA_INLINE void apply_leave_one_out(const ScoreTile &tile, const LogitRows &rows) {
  tile.for_each([&](const Float &score, int64_t j, int64_t r) FOVEA_INLINE_BODY {
    const Int key(static_cast<int32_t>(tile.key + j));
    return choose(as_float_mask(key == Int::load_aligned(rows.left_out + r)), minus_infinity(), score);
  });
}

// All of the above, in the order of the formula.
FOVEA_INLINE void change_all_scores(const LogitTile &of, const AttentionProblem &problem, float multiply) {
  const ScoreTile tile = {of.scores, of.stride, of.vectors, of.key, of.keys, of.vector_any};
  const LogitRows rows = of.rows;  // copied, since stores might change what lies in memory
  if (multiply != 1.0f) {
    const Float factor(multiply);
    tile.for_each([&](const Float &score, int64_t, int64_t) FOVEA_INLINE_BODY { return score * factor; });
  }
  if (problem.score.inverse_squares != nullptr) {
    tile.for_each([&](const Float &score, int64_t, int64_t r)
                      FOVEA_INLINE_BODY { return score * load(rows.inverse_square + r); });
  }
  if (problem.logits.softcap != 0.0f) apply_softcap(tile, problem.logits.softcap);
  if (problem.logits.alibi_slopes != nullptr) apply_alibi(tile, rows);
  if (problem.logits.bias != nullptr || problem.pattern.mask != nullptr) {
    add_bias_and_mask({.scores = tile.scores,
                       .stride = tile.stride,
                       .key = tile.key,
                       .keys = tile.keys,
                       .rows = rows.count,
                       .bias = rows.bias,
                       .mask = rows.mask,
                       .bias_dtype = problem.logits.bias_dtype});
  }
  if (problem.pattern.leave_one_out) apply_leave_one_out(tile, rows);
  if (tile.vector_any != nullptr) apply_ranges(tile, rows);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
