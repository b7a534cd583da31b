// Dot product of bfloat16 queries and keys, many rows, by products of pairs (AVX-512-BF16): an instruction takes two
// features, and for the values two keys. As bits, a pair is one 32-bit element: queries are transposed, keys broadcast
// and sums blocked by what serves float32, with half the depth.
//
// Bound: half of DotManyRows's multiply-adds, the same softmax. Weights are rounded to bfloat16 before they meet the
// values (by up to 2^-8 of each, beside the values' own); scores are products of the given numbers, summed in
// float32, where subnormal terms count as 0.
#pragma once

#include "kernels/products/pair_products.hpp"
#include "kernels/scores/dot.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Weights rounded and paired, two keys to a product.
struct PairValues : ManyRowsValues {
  static constexpr bool takes_pairs = true;
  using Terms = PairProducts;
  static_assert(value_chain % 2 == 0 && tile_keys % 2 == 0 && value_keys % 2 == 0);

  // Weights as pairs, in place: scores[pair of keys][row]. Keys that a register's rows do not attend have weight 0.
  FOVEA_INLINE static void pair_weights(const ScoreTile &tile) {
    for (int64_t j = 0; j < tile.keys; j += 2) {
      const float *from = tile.scores + j * tile_rows;
      float *to = tile.scores + j / 2 * tile_rows;
      for (int64_t v = 0; v < tile.vectors; ++v) {
        const Float second = j + 1 < tile.keys ? load(from + tile_rows + v * lanes) : zero();
        store(to + v * lanes, Float(pairs_of(load(from + v * lanes).data, second.data)));
      }
    }
  }

  FOVEA_NOINLINE static void add_values(float *out, const RowSpan &values, int64_t value_dim, int64_t,
                                        const ScoreTile &tile, const float *rescale, int64_t chain = value_chain) {
    pair_weights(tile);
    PacedFetch next(*values.next);
    const int64_t start = tile.key % chain / 2, last = start + (tile.keys + 1) / 2;
    const int64_t end = end_of_chain(start, chain / 2);
    for_each_vector_group(tile.vectors, [&](auto group, int64_t v) FOVEA_INLINE_BODY {
      constexpr int vectors = decltype(group)::value;
      for_each_block<vectors>(value_dim, [&](auto dims, int64_t d) FOVEA_INLINE_BODY {
        constexpr int count = decltype(dims)::value;
        RowPointers<count, Order::column_major> value(values.row(0) + d, values.stride);
        Block<count, vectors> block;
        const float *weights = tile.scores + v * lanes;
        sum_in_chains(block, start, last, chain / 2, end, [&](int64_t j, int64_t pairs) FOVEA_INLINE_BODY {
          accumulate<PairProducts>(block, value, weights + (j - start) * tile_rows, tile_rows, pairs);
          if (v == 0) next.worked_on(pairs * 2 * count);
        });
        add_scaled(block, out + d * tile_rows + v * lanes, rescale + v * lanes);
      });
    });
  }
};

struct DotPairs : PairValues {
  static constexpr int64_t query_floats(int64_t head_dim) { return head_dim / 2 * tile_rows; }

  // query[pair of features][row]: pairs of bits are moved like floats.
  FOVEA_INLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                        float *query) {
    transpose_queries(table, Dtype::f32, problem.sizes.compared_dim / 2, query);
  }

  // Terms summed over the pairs of features of a block's keys and of queries as load_queries left them.
  template <class Terms, class Scores>
  FOVEA_INLINE static void sum(const Scores &scores, Block<Scores::keys, Scores::vectors> &block, const float *query) {
    const int64_t depth = scores.job.problem.sizes.compared_dim / 2;
    const RowSpan keys = scores.job.keys.in_pairs();
    scores.template sum<Terms, 2>(block, keys.row(scores.j), keys.stride, query, depth);
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    score_tile(job, [&]<class Scores>(const Scores &scores) FOVEA_INLINE_BODY {
      Block<Scores::keys, Scores::vectors> block;
      sum<PairProducts>(scores, block, job.query);
      scores.for_each([&](auto, auto, auto i, float *at) FOVEA_INLINE_BODY { store(at, block.at[i]); });
    });
  }

  static constexpr decltype(nullptr) gradient = nullptr;  // that of dot products (attention/weighted_rows.hpp)
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
