// Tiles of scores[key][row], and what turns raw scores into logits (attention/change_scores.hpp).
#pragma once

#include <math.h>

#include "kernels/attention/row_table.hpp"
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

template <int64_t rows>
FOVEA_INLINE LogitTile with_rows(const ScoreTile &tile, const RowTable<rows> &table) {
  return {.scores = tile.scores,
          .stride = tile.stride,
          .vectors = tile.vectors,
          .key = tile.key,
          .keys = tile.keys,
          .vector_any = tile.vector_any,
          .rows = table.logit_rows()};
}

// Needs scores for every key of the tile that some row attends; what lies elsewhere in the tile is overwritten.
template <int64_t rows>
FOVEA_INLINE void to_logits(const ScoreTile &tile, const RowTable<rows> &table, const AttentionProblem &problem,
                            const ScoreScale &scale) {
  change_scores(with_rows(tile, table), problem, scale.multiply);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
