// sums[key][d] += sum_row weight[key][row] x[row][d]: how a tile of weights, or of their gradients, reaches the keys.
// Weights are broadcast from the tile, x is read in registers. With it, the gradients of dot products.
//
// Of bfloat16, as pairs of rows: weights are rounded to it, as they are where they meet values.
#pragma once

#include "kernels/attention/many_rows.hpp"
#if defined(__AVX512BF16__)
#include "beyond_xsimd/bfloat16_pairs.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

// So many rows are added up in one chain.
constexpr int64_t row_chain = 64;

#if defined(__AVX512BF16__)
// [key][pair of rows], as far apart as the tile's keys; `to` may be the tile.
FOVEA_NOINLINE inline void pair_tile_rows(const ScoreTile &tile, float *to) {
  for (int64_t at = 0; at < tile.keys * tile.stride; at += tile.stride) {
    for (int64_t r = 0; r < tile.vectors * lanes; r += 2 * lanes) {
      const Float first = load(tile.scores + at + r);
      const Float second = r + lanes < tile.vectors * lanes ? load(tile.scores + at + r + lanes) : zero();
      store(to + at + r / 2, Float(neighbours_as_pairs(first.data, second.data)));
    }
  }
}
#else
FOVEA_INLINE void pair_tile_rows(const ScoreTile &, float *) {}
#endif

// weights: of key 0, [key][row] of a tile; x and sums: rows of `stride` floats, whole registers. Rows of pairs are
// half as many.
template <class Path>
FOVEA_NOINLINE void add_products_of_rows(float *sums, const float *weights, int64_t keys, const float *x,
                                         int64_t stride, int64_t row_count) {
  constexpr int64_t chain = Path::takes_pairs ? row_chain / 2 : row_chain;
  for_each_vector_group(stride / lanes, [&](auto group, int64_t v) FOVEA_INLINE_BODY {
    constexpr int vectors = decltype(group)::value;
    for_each_block<vectors>(keys, [&](auto block_keys, int64_t j) FOVEA_INLINE_BODY {
      constexpr int count = decltype(block_keys)::value;
      RowPointers<count, Order::row_major> key_weights(weights + j * Path::tile_rows, Path::tile_rows);
      Block<count, vectors> block;
      sum_in_chains(block, 0, row_count, chain, [&](int64_t r, int64_t some) FOVEA_INLINE_BODY {
        accumulate<typename Path::Terms>(block, key_weights, x + r * stride + v * lanes, stride, some);
      });
      float *to = sums + j * stride + v * lanes;
      unroll<count>([&](auto key) FOVEA_INLINE_BODY {
        unroll<vectors>([&](auto i) FOVEA_INLINE_BODY {
          float *at = to + key * stride + i * lanes;
          store(at, load(at) + block.at[key * vectors + i]);
        });
      });
    });
  });
}

// x: [row][stride], or [pair of rows][stride] as pair_two_rows makes them. Pairs of weights come to lie in `room`, which
// may be the tile.
template <class Path>
FOVEA_INLINE void add_weighted_rows(float *sums, const ScoreTile &tile, const float *x, int64_t stride,
                                    int64_t row_count, float *room) {
  if constexpr (Path::takes_pairs) {
    pair_tile_rows(tile, room);
    add_products_of_rows<Path>(sums, room, tile.keys, x, stride, ceil_div(row_count, 2));
  } else {
    add_products_of_rows<Path>(sums, tile.scores, tile.keys, x, stride, row_count);
  }
}

// Gradients of scores that are dot products: dq += ds k, dk += ds q. They are the sums that attention itself makes, and
// are compiled once, with the driver of gradients. `room` of a tile: what it holds is lost, as is the tile.
template <class Path>
FOVEA_INLINE void pass_dot_gradients(const GradientJob<Path::tile_rows> &job, float *room) {
  constexpr int64_t rows = Path::tile_rows;
  const ScoreTile &tile = job.score.tile;
  const int64_t row_count = job.score.table.count;
  if (job.key_sums != nullptr) {
    add_weighted_rows<Path>(job.key_sums, tile, job.query_rows, job.stride, row_count, room);
  }
  if (job.query_sums != nullptr) {
    alignas(64) float once[rows];
    for (int64_t r = 0; r < rows; r += lanes) store(once + r, splat(1.0f));
    Path::add_values(job.query_sums, job.score.keys, job.score.problem.sizes.compared_dim, row_count, tile, once,
                     Path::tile_keys);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
