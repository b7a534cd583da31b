// Dot product: scores[key][row] = sum_d key[key][d] query[d][row]. Queries are transposed once per task, keys are
// broadcast from where they lie. Also what is left of the bilinear score once one side has been projected.
//
// Per 16 query-key pairs: head_dim multiply-adds here, value_dim for the values, and about 16 vector instructions of
// softmax on the same ports.
#pragma once

#include "kernels/attention_rows_path.hpp"
#include "kernels/attention_tile_path.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Scores of `vectors` registers of rows from register v on, against keys [first, last) of the tile. finish(block, j, v)
// may change the products of keys j, j + 1, ... before they are stored.
template <int vectors, class Finish>
FOVEA_INLINE void multiply_keys(const ScoreJob<TileValues::tile_rows> &job, const float *query, int64_t v,
                                int64_t first, int64_t last, const Finish &finish) {
  constexpr int64_t rows = TileValues::tile_rows;
  const int64_t key_stride = job.problem.key_strides.position;
  for_each_block<vectors>(last - first, [&](auto block_keys, int64_t offset) FOVEA_INLINE_BODY {
    constexpr int count = decltype(block_keys)::value;
    const int64_t j = first + offset;
    if (v == 0) job.next.fetch(j, count);
    Block<count, vectors> block;
    block.clear();
    accumulate<count, vectors, Order::row_major>(block, job.keys + j * key_stride, key_stride, query + v * lanes, rows,
                                                 job.problem.head_dim);
    finish(block, j, v);
    unroll<count>([&](auto r) FOVEA_INLINE_BODY {
      unroll<vectors>([&](auto i) FOVEA_INLINE_BODY {
        store(job.tile.scores + (j + r) * rows + (v + i) * lanes, block.at[r * vectors + i]);
      });
    });
  });
}

// A tile that all rows attend is taken in blocks of several registers; on a diagonal or at a length each register of
// rows goes by itself, over no more keys than it attends.
template <class Finish>
FOVEA_INLINE void multiply_tile(const ScoreJob<TileValues::tile_rows> &job, const float *query, const Finish &finish) {
  const ScoreTile &tile = job.tile;
  if (tile.vector_any == nullptr) {
    for_each_vector_group(tile.vectors, [&](auto group, int64_t v) FOVEA_INLINE_BODY {
      multiply_keys<decltype(group)::value>(job, query, v, 0, tile.keys, finish);
    });
    return;
  }
  for (int64_t v = 0; v < tile.vectors; ++v) {
    const KeyRange range = tile.keys_of(v);
    multiply_keys<1>(job, query, v, range.first, range.last, finish);
  }
}

struct DotTile : TileValues {
  static constexpr int64_t query_floats(int64_t head_dim) { return head_dim * tile_rows; }

  FOVEA_INLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                        float *query) {
    transpose_queries(table, problem.head_dim, query);
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    multiply_tile(job, job.query, [](auto &, int64_t, int64_t) FOVEA_INLINE_BODY {});
  }
};

struct Products {
  FOVEA_INLINE static Float add(const Float &key, const Float &query, const Float &sum) {
    return multiply_add(key, query, sum);
  }
  FOVEA_INLINE static Float finish(const Float &sum) { return sum; }
};

using DotRows = FeatureRows<Products>;

}  // namespace
}  // namespace fovea::FOVEA_ISA
