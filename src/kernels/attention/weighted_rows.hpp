// sums[key][d] += sum_row weight[key][row] x[row][d]: how a tile of weights, or of their gradients, reaches the keys.
// Weights are broadcast from the tile, x is read in registers. With it, the gradients of dot products.
#pragma once

#include "kernels/attention/many_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// So many rows are added up in one chain.
constexpr int64_t row_chain = 64;

// x and sums: rows of `stride` floats, whole registers.
FOVEA_NOINLINE void add_weighted_rows(float *sums, const ScoreTile &tile, const float *x, int64_t stride,
                                      int64_t row_count) {
  for_each_vector_group(stride / lanes, [&](auto group, int64_t v) FOVEA_INLINE_BODY {
    constexpr int vectors = decltype(group)::value;
    for_each_block<vectors>(tile.keys, [&](auto block_keys, int64_t j) FOVEA_INLINE_BODY {
      constexpr int count = decltype(block_keys)::value;
      RowPointers<count, Order::row_major> weights(tile.scores + j * tile.stride, tile.stride);
      Block<count, vectors> block;
      sum_in_chains(block, 0, row_count, row_chain, [&](int64_t r, int64_t some) FOVEA_INLINE_BODY {
        accumulate(block, weights, x + r * stride + v * lanes, stride, some);
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

// Gradients of scores that are dot products: dq += ds k, dk += ds q. They are the sums that attention itself makes, and
// are compiled once, with the driver of gradients.
inline void pass_dot_gradients(const GradientJob<ManyRowsValues::tile_rows> &job) {
  constexpr int64_t rows = ManyRowsValues::tile_rows;
  const ScoreTile &tile = job.score.tile;
  const int64_t row_count = job.score.table.count;
  if (job.query_sums != nullptr) {
    alignas(64) float once[rows];
    for (int64_t r = 0; r < rows; r += lanes) store(once + r, splat(1.0f));
    ManyRowsValues::add_values<ManyRowsValues::tile_keys>(job.query_sums, job.score.keys,
                                                          job.score.problem.sizes.compared_dim, row_count, tile, once);
  }
  if (job.key_sums != nullptr) add_weighted_rows(job.key_sums, tile, job.query_rows, job.stride, row_count);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
