// Returned scores, by a pass of their own over the tiles: no more than one tile ever exists beside the result. The
// problem says which scores they are: what is not to be done to them yet (soft-cap, bias, masks) is not in it.
#pragma once

#include "kernels/attention/logits.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Path>
struct ScoresDriver {
  static constexpr int64_t rows = Path::tile_rows;
  static constexpr int64_t keys = Path::tile_keys;

  const AttentionTask &task;
  const AttentionProblem &problem;
  Logits<Path> logits;
  RowTable<rows> table;
  void *out[rows];
  float *query;
  float *scores;

  static int64_t scratch_floats(const ScoreFunction &score, int64_t head_dim, bool copies) {
    return score.query_floats(head_dim) + keys * rows + (copies ? keys * padded_units(head_dim) : 0);
  }
  FOVEA_INLINE static float *copy_room(const ScoreFunction &score, const AttentionTask &task) {
    return static_cast<float *>(task.scratch) + scratch_floats(score, task.problem->sizes.compared_dim, false);
  }

  FOVEA_INLINE ScoresDriver(const ScoreFunction &score, const AttentionTask &t)
      : task(t), problem(*t.problem), logits(score, t, copy_room(score, t)) {
    query = static_cast<float *>(task.scratch);
    scores = query + score.query_floats(problem.sizes.compared_dim);
  }

  // `body(to, row)` for the place of key 0 of each row.
  template <class Body>
  FOVEA_INLINE void for_each_row(const Body &body) const {
    with_element(problem.outputs.scores_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      for (int64_t r = 0; r < table.count; ++r) body(static_cast<typename T::Element *>(out[r]), r);
    });
  }

  FOVEA_NOINLINE void mask(int64_t first, int64_t last) const {
    for_each_row([&](auto *to, int64_t) FOVEA_INLINE_BODY {
      for (int64_t j = first; j < last; j += lanes) store_partial(to + j, minus_infinity(), min_of(lanes, last - j));
    });
  }

  FOVEA_INLINE void write_tile(int64_t key, int64_t count) {
    const ScoreTile tile = make_tile(scores, table, key, count);
    logits.score(table, query, tile, {});
    logits.finish(table, tile);
    const Float natural(logits.scale.natural);
    with_element(problem.outputs.scores_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      typename T::Element *to[rows];
      for (int64_t r = 0; r < table.count; ++r) to[r] = static_cast<typename T::Element *>(out[r]) + key;
      for (int64_t r = 0; r < table.count; r += lanes) {
        lanes_to_rows(tile.scores + r, tile.stride, natural, to + r, min_of(lanes, table.count - r), count);
      }
    });
  }

  FOVEA_INLINE void block(int64_t row_begin, int64_t row_count) {
    table.fill(task, row_begin, row_count);
    logits.load_queries(table, query);
    QueryCursor row(problem, task.batch, task.kv_head, row_begin);
    for (int64_t r = 0; r < row_count; ++r, row.advance()) {
      out[r] = element_at(problem.outputs.scores, problem.outputs.scores_dtype, row.at(problem.outputs.scores_strides));
    }
    const int64_t first = min_of(table.any.first, table.any.last);
    mask(0, first);
    for (int64_t key = first; key < table.any.last; key += keys) write_tile(key, min_of(keys, table.any.last - key));
    mask(table.any.last, problem.sizes.key_len);
  }

  void run() {
    for (int64_t begin = 0; begin < task.row_count; begin += rows) {
      block(task.row_begin + begin, min_of(rows, task.row_count - begin));
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
