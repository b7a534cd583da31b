// From queries and keys to logits, a tile of keys at a time: the rows' table, their queries, scores, and what is done
// to scores (attention/change_scores.hpp). The forward pass, the returned weights and the returned scores consume it.
#pragma once

#include "kernels/attention/logit_terms.hpp"
#include "kernels/attention/score.hpp"
#include "kernels/attention/source.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// What rows with scales become.
template <class Path>
constexpr Dtype scaled_type = Path::takes_pairs ? Dtype::bf16 : Dtype::f32;

template <class Path>
struct Logits {
  static_assert(ValueSums<Path>);
  static constexpr int64_t rows = Path::tile_rows;

  const AttentionTask &task;
  const AttentionProblem &problem;
  const ScoreFunction &function;
  HeadSource keys;
  const float *key_scalars;  // null: the score function needs none
  ScoreScale scale;

  // copy_room: for a tile of keys as floats, or brought together; for few rows, for some rows with scales.
  FOVEA_INLINE Logits(const ScoreFunction &score, const AttentionTask &t, float *copy_room)
      : task(t),
        problem(*t.problem),
        function(score),
        keys(problem.key, task.batch, task.kv_head, key_row_size(problem),
             Path::is_few_rows || Path::takes_pairs ? RowForm::given : RowForm::widened, copy_room, scaled_type<Path>),
        scale(problem) {
    const HeadStrides &strides = problem.score.key_scalars_strides;
    key_scalars = problem.score.key_scalars + task.batch * strides.batch + task.kv_head * strides.head;
  }

  FOVEA_INLINE void load_queries(const RowTable<rows> &table, float *query) const {
    function.load_queries(problem, &table, query);
  }

  // Raw scores of the tile's keys, for queries as load_queries left them.
  FOVEA_INLINE void score(const RowTable<rows> &table, float *query, const ScoreTile &tile, const Prefetch &next,
                          const RowsNext *then = nullptr) {
    if constexpr (Path::is_few_rows && !Path::takes_bytes) {
      if (!keys.lies_ready) return score_runs(table, query, tile);
    }
    // Made where it stays: copies of structs that were just written wait for their stores.
    const ScoreJob<rows> job = {problem,     table, query, keys.template span<Path::is_few_rows>(tile.key, tile.keys),
                                key_scalars, tile,  next,  then};
    function.score(&job);
  }

  // A score does not depend on the keys it is computed with, so a tile's may be taken apart where memory ends.
  FOVEA_NOINLINE void score_runs(const RowTable<rows> &table, float *query, const ScoreTile &tile) const {
    // More rows than share what a register makes of a key where it lies had better find it in scratch.
    const bool as_they_lie = Path::takes_numbers && keys.in_blocks() && table.count <= Path::rows_together;
    keys.for_each_scored_span(tile.key, tile.keys, as_they_lie, [&](const RowSpan &span, int64_t first) {
      ScoreTile part = tile;
      part.scores += (first - tile.key) * tile.stride;
      part.key = first;
      part.keys = span.count;
      const ScoreJob<rows> job = {problem, table, query, span, key_scalars, part, nothing_next};
      function.score(&job);
    });
  }

  // Whether the tile's raw scores, times scale.natural, are its logits.
  FOVEA_INLINE bool are_scores(const ScoreTile &tile) const { return scale.plain && tile.vector_any == nullptr; }

  // Turns raw scores into logits.
  FOVEA_INLINE void finish(const RowTable<rows> &table, const ScoreTile &tile) const {
    to_logits(tile, table, problem, scale);
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
