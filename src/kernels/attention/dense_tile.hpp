// Tiles of scores for few rows. If lanes were rows alone, most would be idle, so the softmax takes scores[key][row]
// with only `width` floats from key to key, the least power of two that holds the task's rows: a register has lanes /
// width keys, and one row's tile is a line of keys. What is beside the rows and behind the last key, up to the end of a
// step, is masked.
//
// Maxima and sums are taken over one lane's keys first, then over lanes `width` apart. Key j always adds to the same
// lane of the same chain, counted from the grid of keys, so that zeros of masked keys do not change the order of a sum.
#pragma once

#include "kernels/attention/online_softmax.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int dense_step = 3;  // registers that are taken together, each with a chain of its own

// Floats from key to key; no less than `lanes` if a register is full of rows.
FOVEA_INLINE int64_t dense_width(int64_t rows) {
  int64_t width = 1;
  while (width < rows) width *= 2;
  return width;
}

FOVEA_INLINE int64_t dense_step_keys(int64_t width) { return dense_step * lanes / width; }

// body(Index<width>)
template <class Body>
FOVEA_INLINE void with_dense_width(int64_t width, const Body &body) {
  if (width == 1) return body(Index<1>{});
  if (width == 2) return body(Index<2>{});
  if constexpr (lanes > 4) {
    if (width == 4) return body(Index<4>{});
  }
  if constexpr (lanes > 8) body(Index<8>{});
}

// Masked as a whole, for scores still to be written to it.
FOVEA_INLINE ScoreTile empty_dense_tile(ScoreTile tile, int64_t width) {
  const int64_t end = round_up(tile.keys * width, dense_step * lanes);
  for (int64_t i = 0; i < end; i += lanes) store(tile.scores + i, minus_infinity());
  tile.stride = width;
  return tile;
}

// The first columns of a tile move together.
[[maybe_unused]] FOVEA_NOINLINE ScoreTile to_dense_tile(ScoreTile tile, int64_t width) {
  with_dense_width(width, [&](auto columns) FOVEA_INLINE_BODY {
    constexpr int count = decltype(columns)::value;
    for (int64_t j = 1; j < tile.keys; ++j) {
      memcpy(tile.scores + j * count, tile.scores + j * tile.stride, count * sizeof(float));
    }
  });
  const int64_t end = round_up(tile.keys * width, dense_step * lanes);
  for (int64_t i = tile.keys * width; i < end; ++i) tile.scores[i] = -INFINITY;
  tile.stride = width;
  return tile;
}

// And back, `stride` floats from key to key.
[[maybe_unused]] FOVEA_NOINLINE ScoreTile from_dense_tile(ScoreTile tile, int64_t stride) {
  with_dense_width(tile.stride, [&](auto columns) FOVEA_INLINE_BODY {
    constexpr int count = decltype(columns)::value;
    for (int64_t j = tile.keys - 1; j > 0; --j) {
      memcpy(tile.scores + j * stride, tile.scores + j * count, count * sizeof(float));
    }
  });
  tile.stride = stride;
  return tile;
}

using LaneList = typename MakeIndexList<static_cast<int>(lanes)>::Type;

// Each lane from its neighbour `width` lanes away.
template <int width, int... lane>
FOVEA_INLINE Float swap_groups(IndexList<lane...>, const Float &value) {
  return xsimd::swizzle(value, xsimd::batch_constant<uint32_t, Arch, uint32_t{lane ^ width}...>());
}

// The first `width` lanes again and again.
template <int width, int... lane>
FOVEA_INLINE Float repeat_group(IndexList<lane...>, const Float &value) {
  return xsimd::swizzle(value, xsimd::batch_constant<uint32_t, Arch, uint32_t{lane % width}...>());
}

// Combines lanes that lie `width` apart and puts the result into each of them.
template <int width, class Combine>
FOVEA_INLINE Float fold_lanes(const Float &value, const Combine &combine) {
  if constexpr (width < lanes) {
    return fold_lanes<2 * width>(combine(value, swap_groups<width>(LaneList(), value)), combine);
  } else {
    return value;
  }
}

// Turns the tile of logits into weights and updates the state, whose lanes repeat those of the rows.
template <int width>
FOVEA_INLINE void softmax_of_width(const SoftmaxTile &tile) {
  const ScaledExp2 exponent(tile.exponent_scale);
  float *scores = tile.scores;
  const int64_t end = tile.keys * width;
  Float best[dense_step];
  unroll<dense_step>([&](auto i) FOVEA_INLINE_BODY { best[i] = minus_infinity(); });
  for (int64_t at = 0; at < end; at += dense_step * lanes) {
    unroll<dense_step>([&](auto i) FOVEA_INLINE_BODY { best[i] = larger(load(scores + at + i * lanes), best[i]); });
  }
  const Float tile_best =
      fold_lanes<width>(larger(larger(best[0], best[1]), best[2]),
                        [](const Float &a, const Float &b) FOVEA_INLINE_BODY { return larger(a, b); });
  const Float old_max = repeat_group<width>(LaneList(), load(tile.max));
  const Float new_max = larger(tile_best, old_max);
  const Float base = finite_max(new_max);
  const Float rescale = exponent(old_max - base);
  Float sum[dense_step];
  unroll<dense_step>([&](auto i) FOVEA_INLINE_BODY { sum[i] = zero(); });
  for (int64_t at = 0; at < end; at += dense_step * lanes) {
    Float weight[dense_step];
    unroll<dense_step>([&](auto i) FOVEA_INLINE_BODY { weight[i] = load(scores + at + i * lanes) - base; });
    exponent.apply(weight);
    unroll<dense_step>([&](auto i) FOVEA_INLINE_BODY {
      store(scores + at + i * lanes, weight[i]);
      sum[i] = sum[i] + weight[i];
    });
  }
  const Float total = fold_lanes<width>(sum[0] + sum[1] + sum[2],
                                        [](const Float &a, const Float &b) FOVEA_INLINE_BODY { return a + b; });
  const Float old_sum = repeat_group<width>(LaneList(), load(tile.sum));
  store(tile.max, new_max);
  store(tile.rescale, rescale);
  store(tile.sum, multiply_add(old_sum, rescale, total));
}

FOVEA_INLINE void softmax_of_dense(const SoftmaxTile &tile) {
  with_dense_width(tile.stride, [&](auto width) FOVEA_INLINE_BODY { softmax_of_width<decltype(width)::value>(tile); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
