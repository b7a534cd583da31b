// Dot-product scores: scores[key][row] = sum_d key[key][d] query[d][row]. Queries are transposed once per task, keys
// are broadcast from where they lie. Also what is left of the bilinear score once one side has been projected.
//
// Per 16 query-key pairs: head_dim multiply-adds here, value_dim for the values, and about 16 vector instructions of
// softmax on the same ports.
#pragma once

#include "kernels/attention/feature_rows.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// A block of scores of a tile: keys j, j + 1, ... against the rows of registers v, v + 1, ...
template <int keys_, int vectors_>
struct ScoreBlock {
  static constexpr int keys = keys_;
  static constexpr int vectors = vectors_;
  static constexpr int64_t rows = ManyRowsValues::tile_rows;

  const ScoreJob<rows> &job;
  PacedFetch *next;
  int64_t j, v;

  // Terms summed over the features of each key and row. A step of the depth has so many features.
  template <class Terms, int features = 1>
  FOVEA_INLINE void sum(Block<keys, vectors> &block, const float *key, int64_t key_stride, const float *query,
                        int64_t depth) const {
    RowPointers<keys, Order::row_major> key_rows(key, key_stride);
    query += v * lanes;
    sum_in_chains(block, 0, depth, feature_chain(depth), [&](int64_t k, int64_t count) FOVEA_INLINE_BODY {
      accumulate<Terms>(block, key_rows, query + k * rows, rows, count);
      if (next != nullptr) next->worked_on(count * keys * features);
    });
  }

  // body(r, i, at) for each register: of key j + r and the i-th register of rows, at(block) of a Block; its scores lie
  // at `scores`.
  template <class Body>
  FOVEA_INLINE void for_each(const Body &body) const {
    float *const scores = job.tile.scores + j * rows + v * lanes;
    unroll<keys>([&](auto r) FOVEA_INLINE_BODY {
      unroll<vectors>([&](auto i) FOVEA_INLINE_BODY {
        body(r, i, Index<decltype(r)::value * vectors + decltype(i)::value>{}, scores + r * rows + i * lanes);
      });
    });
  }
};

template <int vectors, class Score>
FOVEA_INLINE void score_keys(const ScoreJob<ManyRowsValues::tile_rows> &job, PacedFetch *next, int64_t v, int64_t first,
                             int64_t last, const Score &score) {
  for_each_block<vectors>(last - first, [&](auto keys, int64_t offset) FOVEA_INLINE_BODY {
    const int64_t j = first + offset;
    if (v == 0) job.next.fetch_rows(j, keys);
    score(ScoreBlock<decltype(keys)::value, vectors>{job, v == 0 ? next : nullptr, j, v});
  });
}

// score(ScoreBlock) for all of a tile. One that all rows attend is taken in blocks of several registers; on a diagonal
// or at a length each register of rows goes by itself, over no more keys than it attends.
template <class Score>
FOVEA_INLINE void score_tile(const ScoreJob<ManyRowsValues::tile_rows> &job, const Score &score) {
  const ScoreTile &tile = job.tile;
  PacedFetch next(job.next.keys);
  const bool whole = tile.vector_any == nullptr;
  int64_t v = 0;
  if (whole) {
    v = for_each_wide_group(tile.vectors, [&](auto group, int64_t first) FOVEA_INLINE_BODY {
      score_keys<decltype(group)::value>(job, &next, first, 0, tile.keys, score);
    });
  }
  for (; v < tile.vectors; ++v) {
    const KeyRange range = whole ? KeyRange{0, tile.keys} : tile.keys_of(v);
    score_keys<1>(job, &next, v, range.first, range.last, score);
  }
}

struct DotManyRows : ManyRowsValues {
  static constexpr int64_t query_floats(int64_t head_dim) { return head_dim * tile_rows; }

  FOVEA_INLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                        float *query) {
    transpose_queries(table, problem.query.dtype, problem.sizes.compared_dim, query);
  }

  // Terms summed over the features of a block's keys and of queries as load_queries left them.
  template <class Terms, class Scores>
  FOVEA_INLINE static void sum(const Scores &scores, Block<Scores::keys, Scores::vectors> &block, const float *query) {
    const RowSpan &keys = scores.job.keys;
    scores.template sum<Terms>(block, keys.row(scores.j), keys.stride, query, scores.job.problem.sizes.compared_dim);
  }

  // Of a band of one row, whose other lanes would be idle: lanes are keys, whose features are turned around in squares.
  // A score is made of the same terms in the same order.
  FOVEA_NOINLINE static void score_one_row(const ScoreJob<tile_rows> &job) {
    const int64_t depth = job.problem.sizes.compared_dim, chain = feature_chain(depth);
    const KeyRange range = job.tile.vector_any == nullptr ? KeyRange{0, job.tile.keys} : job.tile.keys_of(0);
    for (int64_t j = range.first; j < range.last; j += lanes) {
      const int64_t count = min_of(lanes, range.last - j);
      job.next.fetch(j, count);
      Float before = zero(), sum = zero();
      for (int64_t k = 0; k < depth; k += lanes) {
        if (k % chain == 0) before = k == chain ? sum : before + sum, sum = zero();
        Square square;
        const int64_t width = min_of(lanes, depth - k);
        unroll<lanes>([&](auto y) FOVEA_INLINE_BODY {
          const float *key = job.keys.row(min_of(j + y, range.last - 1)) + k;
          square.row[y] = width == lanes ? load(key) : load_partial(key, width);
        });
        transpose(square);
        unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
          if (i < width) sum = add_product(square.row[i], splat(job.query[(k + i) * tile_rows]), sum);
        });
      }
      alignas(64) float scores[lanes];
      store(scores, depth > chain ? before + sum : sum);
      for (int64_t y = 0; y < count; ++y) store(job.tile.scores + (j + y) * tile_rows, splat(scores[y]));
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    if (job.table.count == 1) return score_one_row(job);
    score_tile(job, [&]<class Scores>(const Scores &scores) FOVEA_INLINE_BODY {
      Block<Scores::keys, Scores::vectors> block;
      sum<Products>(scores, block, job.query);
      scores.for_each([&](auto, auto, auto i, float *at) FOVEA_INLINE_BODY { store(at, block.at[i]); });
    });
  }

  static constexpr decltype(nullptr) gradient = nullptr;  // that of dot products (attention/weighted_rows.hpp)
};

struct DotProduct : Products {
  static constexpr bool takes_numbers = true;
  FOVEA_INLINE static Float finish(const Float &sum) { return sum; }
};

struct DotFewRows : FeatureRows<DotProduct> {
  // With wide registers few rows are the faster path for longer, unless their features are few, too.
  static constexpr int64_t few_rows_of(int64_t head_dim) {
    if (lanes == 16 && head_dim >= 64) return 12;
    if (lanes == 8) return head_dim >= 128 ? 8 : 6;
    return FewRowsValues::few_rows_of(head_dim);
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
