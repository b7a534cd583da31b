// Turns raw scores into logits: scale, soft-cap, bias, ALiBi, masks, on a tile of scores[key][row]. Each option is one
// pass over the tile, which lies in the first-level cache; options that are off cost nothing. Masked scores become
// -infinity.
#pragma once

#include <math.h>

#include "kernels/attention/row_table.hpp"
#include "kernels/math/tanh.hpp"
#include "kernels/shared_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// A tile of scores: keys [key, key + keys) of the rows in a RowTable, row stride `stride` floats from key to key.
struct ScoreTile {
  float *scores;
  int64_t stride;
  int64_t vectors;
  int64_t key;
  int64_t keys;
  const KeyRange *vector_any;  // keys that each register's rows attend at all; null: all of the tile

  // Those keys within the tile, counted from its first.
  FOVEA_INLINE KeyRange keys_of(int64_t vector) const {
    const KeyRange &range = vector_any[vector];
    return {max_of(0, range.first - key), min_of(keys, range.last - key)};
  }

  template <class Body>
  FOVEA_INLINE void for_each(const Body &body) const {
    for (int64_t j = 0; j < keys; ++j) {
      for (int64_t v = 0; v < vectors; ++v) {
        float *at = scores + j * stride + v * lanes;
        store(at, body(load(at), j, v * lanes));
      }
    }
  }
};

template <int64_t rows>
FOVEA_INLINE ScoreTile make_tile(float *scores, const RowTable<rows> &table, int64_t key, int64_t keys) {
  const bool whole = key >= table.all.first && key + keys <= table.all.last;
  return {scores, rows, table.vectors, key, keys, whole ? nullptr : table.vector_any};
}

FOVEA_INLINE Float minus_infinity() { return Float(-INFINITY); }

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
template <int64_t rows>
FOVEA_INLINE void apply_alibi(const ScoreTile &tile, const RowTable<rows> &table) {
  tile.for_each([&](const Float &score, int64_t j, int64_t r) FOVEA_INLINE_BODY {
    const Int ahead = Int::load_aligned(table.position + r) - Int(static_cast<int32_t>(tile.key + j));
    const Float distance = xsimd::to_float(xsimd::abs(ahead));
    return multiply_add(-load(table.slope + r), distance, score);
  });
}

template <int64_t rows>
FOVEA_INLINE void apply_ranges(const ScoreTile &tile, const RowTable<rows> &table) {
  tile.for_each([&](const Float &score, int64_t j, int64_t r) FOVEA_INLINE_BODY {
    const Int key(static_cast<int32_t>(tile.key + j));
    const auto attended =
        (key >= Int::load_aligned(table.first_key + r)) & (key < Int::load_aligned(table.last_key + r));
    return choose(as_float_mask(attended), score, minus_infinity());
  });
}

template <int64_t rows>
FOVEA_INLINE void apply_leave_one_out(const ScoreTile &tile, const RowTable<rows> &table) {
  tile.for_each([&](const Float &score, int64_t j, int64_t r) FOVEA_INLINE_BODY {
    const Int key(static_cast<int32_t>(tile.key + j));
    return choose(as_float_mask(key == Int::load_aligned(table.left_out + r)), minus_infinity(), score);
  });
}

// The smallest range among `keys` keys from `key` on that holds all keys which the boolean mask lets some row attend,
// counted from the first.
template <int64_t rows>
FOVEA_INLINE KeyRange keys_allowed(const RowTable<rows> &table, int64_t key, int64_t keys) {
  KeyRange allowed = {keys, 0};
  for (int64_t r = 0; r < table.count; ++r) {
    const uint8_t *mask = table.mask[r] + key;
    int64_t first = 0;
    int64_t last = keys;
    while (first < allowed.first && mask[first] == 0) ++first;
    while (last > allowed.last && mask[last - 1] == 0) --last;
    allowed = {first, last};
  }
  return allowed;
}

// How scores become exponents: weight = 2^((score - row_max) * exponent_scale).
struct ScoreScale {
  float multiply;        // applied to raw scores by to_logits(); 1 when the exponent's factor does it
  float exponent_scale;  // times log2(e)
  float natural;         // logit = changed score * natural
  bool plain;            // to_logits() has nothing to do but mask what lies outside the rows' ranges

  FOVEA_INLINE explicit ScoreScale(const AttentionProblem &problem) {
    constexpr float log2_e = 1.44269504088896340736f;
    // The scale can wait for the exponent when nothing is added to the scores before, and it is positive and
    // unremarkable.
    const bool changed = problem.logits.softcap != 0.0f || problem.logits.bias != nullptr ||
                         problem.logits.alibi_slopes != nullptr || problem.score.inverse_squares != nullptr;
    const bool deferred = !changed && problem.logits.scale > 1e-20f && problem.logits.scale < 1e20f;
    multiply = deferred ? 1.0f : problem.logits.scale;
    natural = deferred ? problem.logits.scale : 1.0f;
    exponent_scale = natural * log2_e;
    plain = deferred && problem.pattern.mask == nullptr && !problem.pattern.leave_one_out;
  }
};

inline float score_unit(const AttentionProblem &problem) { return ScoreScale(problem).natural; }

// All of the above, in the order of the formula. Needs scores for every key of the tile that some row attends; what
// lies elsewhere in the tile is overwritten.
template <int64_t rows>
FOVEA_NOINLINE void to_logits(const ScoreTile &tile, const RowTable<rows> &table, const AttentionProblem &problem,
                              const ScoreScale &scale) {
  if (scale.multiply != 1.0f) {
    const Float factor(scale.multiply);
    tile.for_each([&](const Float &score, int64_t, int64_t) FOVEA_INLINE_BODY { return score * factor; });
  }
  if (problem.score.inverse_squares != nullptr) {
    tile.for_each([&](const Float &score, int64_t, int64_t r)
                      FOVEA_INLINE_BODY { return score * load(table.inverse_square + r); });
  }
  if (problem.logits.softcap != 0.0f) apply_softcap(tile, problem.logits.softcap);
  if (problem.logits.alibi_slopes != nullptr) apply_alibi(tile, table);
  if (problem.logits.bias != nullptr || problem.pattern.mask != nullptr) {
    add_bias_and_mask({.scores = tile.scores,
                       .stride = tile.stride,
                       .key = tile.key,
                       .keys = tile.keys,
                       .rows = table.count,
                       .bias = table.bias,
                       .mask = table.mask,
                       .bias_dtype = problem.logits.bias_dtype});
  }
  if (problem.pattern.leave_one_out) apply_leave_one_out(tile, table);
  if (tile.vector_any != nullptr) apply_ranges(tile, table);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
