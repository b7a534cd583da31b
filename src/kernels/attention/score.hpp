// What a score function is given: one tile of keys against the rows of a band. It fills tile.scores[key][row] with raw
// scores, for every row of a register some row of which attends the key; scores/dot.hpp, scores/gaussian.hpp and
// score_additive_*.hpp are the ones there are.
//
// A score function is a struct that adds to ManyRowsValues or FewRowsValues:
//   query_floats(head_dim)                     scratch for a band's queries
//   load_queries(problem, table, query)        puts them there, in whatever form it likes
//   score(job)
#pragma once

#include "kernels/attention/logits.hpp"
#include "kernels/prefetch.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <int64_t rows>
struct ScoreJob {
  const AttentionProblem &problem;
  const RowTable<rows> &table;
  float *query;              // as load_queries left it, and what room it asked for
  const float *keys;         // the tile's first key
  const float *key_scalars;  // of key 0; see AttentionProblem
  const ScoreTile &tile;
  const Prefetch &next;  // to be asked for on the way

  // The number that goes with the tile's key j.
  FOVEA_INLINE float key_scalar(int64_t j) const { return key_scalars[tile.key + j]; }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
