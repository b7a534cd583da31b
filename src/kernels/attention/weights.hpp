// Second pass of attention: the weights themselves, once the maximum and the sum of every row are known.
//   weights[row][key] = e^(score - row_max) * row_scale,   row_scale = 1 / row_sum
// Scores are computed again tile by tile, so no more than a tile of them ever exists beside the result. Masked keys
// get 0. With average_weights a task covers one block of queries in all heads of its batch entry, in order, and adds
// weight / heads.
#pragma once

#include "kernels/attention/drop_weights.hpp"
#include "kernels/attention/empty_rows.hpp"
#include "kernels/attention/logits.hpp"
#include "kernels/attention/online_softmax.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Path>
struct WeightsDriver {
  static constexpr int64_t rows = Path::tile_rows;
  static constexpr int64_t keys = Path::tile_keys;

  const AttentionTask &task;
  const AttentionProblem &problem;
  Logits<Path> logits;
  ScaledExp2 exponent;
  RowTable<rows> table;
  alignas(64) float max[rows];
  alignas(64) float factor[rows];
  void *out[rows];
  bool add;     // to what earlier heads left
  float share;  // of one head
  float *query;
  float *scores;
  float *line;  // [rows][keys], the tile in row-major order

  static int64_t scratch_floats(const ScoreFunction &score, int64_t head_dim, bool copies) {
    return score.query_floats(head_dim) + 2 * keys * rows + (copies ? keys * padded_units(head_dim) : 0);
  }

  FOVEA_INLINE static float *copy_room(const ScoreFunction &score, const AttentionTask &task) {
    return static_cast<float *>(task.scratch) + scratch_floats(score, task.problem->sizes.compared_dim, false);
  }

  FOVEA_INLINE WeightsDriver(const ScoreFunction &score, const AttentionTask &t)
      : task(t), problem(*t.problem), logits(score, t, copy_room(score, t)), exponent(logits.scale.exponent_scale) {
    query = static_cast<float *>(task.scratch);
    scores = query + score.query_floats(problem.sizes.compared_dim);
    line = scores + keys * rows;
    share = problem.outputs.average_weights ? 1.0f / static_cast<float>(problem.sizes.heads) : 1.0f;
  }

  // `count` weights of a row, from key `first` on. What is added to is float32.
  FOVEA_NOINLINE void fill(void *row, int64_t first, int64_t count, float weight) const {
    with_element(problem.outputs.weights_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      auto *to = static_cast<typename T::Element *>(row) + first;
      for (int64_t j = 0; j < count; j += lanes) {
        const int64_t width = min_of(lanes, count - j);
        store_partial(to + j, add ? load_partial(to + j, width) + splat(weight) : splat(weight), width);
      }
    });
  }

  FOVEA_INLINE void load_rows(int64_t row_begin, int64_t row_count) {
    table.fill(task, row_begin, row_count);
    logits.load_queries(table, query);
    QueryCursor row(problem, task.batch, task.kv_head, row_begin);
    add = problem.outputs.average_weights && row.head > 0;
    for (int64_t r = 0; r < row_count; ++r, row.advance()) {
      max[r] = task.row_max[row_begin + r];
      factor[r] = task.row_scale[row_begin + r] * share;
      out[r] =
          element_at(problem.outputs.weights, problem.outputs.weights_dtype, row.at(problem.outputs.weights_strides));
    }
    for (int64_t r = row_count; r < table.vectors * lanes; ++r) max[r] = factor[r] = 0.0f;
  }

  FOVEA_INLINE void weigh(const ScoreTile &tile) {
    tile.for_each([&](const Float &score, int64_t, int64_t r) FOVEA_INLINE_BODY {
      const Float weight = exponent(score - finite_max(load(max + r))) * load(factor + r);
      return choose(score == minus_infinity(), zero(), weight);
    });
  }

  template <class Element>
  FOVEA_INLINE void write_to(Element *const *to, const ScoreTile &tile) const {
    for (int64_t r = 0; r < table.count; r += lanes) {
      lanes_to_rows(tile.scores + r, tile.stride, splat(1.0f), to + r, min_of(lanes, table.count - r), tile.keys);
    }
  }

  FOVEA_INLINE void write(const ScoreTile &tile) const {
    if (!add) {
      with_element(problem.outputs.weights_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
        typename T::Element *to[rows];
        for (int64_t r = 0; r < table.count; ++r) to[r] = static_cast<typename T::Element *>(out[r]) + tile.key;
        write_to(to, tile);
      });
      return;
    }
    float *lines[rows];
    for (int64_t r = 0; r < table.count; ++r) lines[r] = line + r * keys;
    write_to(lines, tile);
    for (int64_t r = 0; r < table.count; ++r) {
      float *to = static_cast<float *>(out[r]) + tile.key;
      for (int64_t j = 0; j < tile.keys; ++j) to[j] += lines[r][j];
    }
  }

  FOVEA_INLINE void attend_tile(int64_t key, int64_t key_end) {
    const ScoreTile tile = make_tile(scores, table, key, key_end - key);
    logits.score(table, query, tile, {});
    logits.finish(table, tile);
    weigh(tile);
    if (problem.dropout.threshold != 0) apply_dropout(tile, table, problem.dropout, task.batch);
    write(tile);
  }

  FOVEA_INLINE void block(int64_t row_begin, int64_t row_count) {
    load_rows(row_begin, row_count);
    const int64_t first = min_of(table.any.first, table.any.last);
    for (int64_t key = first; key < table.any.last; key += keys) attend_tile(key, min_of(key + keys, table.any.last));
    for (int64_t r = 0; r < row_count; ++r) {
      if (factor[r] == 0.0f && problem.empty_rows != EmptyRows::zero) {
        fill(out[r], 0, problem.sizes.key_len, empty_weight(problem) * share);  // the tiles gave it zeros
        continue;
      }
      fill(out[r], 0, first, 0.0f);
      fill(out[r], table.any.last, problem.sizes.key_len - table.any.last, 0.0f);
    }
  }

  void run() {
    for (int64_t begin = 0; begin < task.row_count; begin += rows) {
      block(task.row_begin + begin, min_of(rows, task.row_count - begin));
    }
  }
};

// Writes the weights of those of a task's rows whose sums are NaN.
template <class Path>
FOVEA_NOINLINE void write_weights_of_nans(const ScoreFunction &score, const AttentionTask &task) {
  for (int64_t row = task.row_begin; row < task.row_begin + task.row_count; ++row) {
    if (task.row_scale[row] == task.row_scale[row]) continue;
    AttentionTask one = task;
    one.row_begin = row;
    one.row_count = 1;
    WeightsDriver<Path>(score, one).run();
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
