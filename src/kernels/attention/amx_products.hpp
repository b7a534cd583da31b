// The two products of attention on AMX's tiles, 32 x 32 sums at a time (four tiles of sums, two of each operand):
//
//   scores[key][row] = sum_d key[key][d] query[d][row]               out[d][row] += sum_key value[key][d] weight[key][row]
//
// Lanes are rows, as with vector kernels, so masks and softmax need no shuffles. Queries and weights are right-hand
// sides: tiles of 16 pairs x 16 rows. Rows up to 16 have one tile, and the other half of the sums is left out.
//
// While the tile unit works, 64 cycles a step of four products, the vector unit has nothing to do: beside() is called
// once a step and does a part of what is next.
#pragma once

#include "kernels/attention/amx_blocks.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t band_rows = 2 * tile_edge;
constexpr int64_t score_stride_bytes = band_rows * static_cast<int64_t>(sizeof(float));

// Steps of 32 keys of a block.
struct KeySteps {
  int64_t first, last;
};

struct ScoreProduct {
  const char *keys;     // a packed block
  const char *queries;  // [step of features][tile of rows]
  float *scores;        // [block_keys][band_rows]
  int64_t steps;        // of features
  KeySteps range;
};

template <class Element, int row_tiles, class Beside>
FOVEA_INLINE void multiply_scores(const ScoreProduct &product, Beside &beside) {
  const int64_t key_tile_bytes = product.steps * tile_bytes;
  for (int64_t pair = product.range.first; pair < product.range.last; ++pair) {
    const char *keys = product.keys + 2 * pair * key_tile_bytes;
    const char *queries = product.queries;
    unroll<4>([](auto sum) FOVEA_INLINE_BODY { clear_tile<sum>(); });
    for (int64_t s = 0; s < product.steps; ++s, keys += tile_bytes, queries += 2 * tile_bytes) {
      load_tile<4>(keys);
      load_tile<6>(queries);
      Element::template multiply<0, 4, 6>();
      if (row_tiles == 2) {
        load_tile<7>(queries + tile_bytes);
        Element::template multiply<1, 4, 7>();
      }
      load_tile<5>(keys + key_tile_bytes);
      Element::template multiply<2, 5, 6>();
      if (row_tiles == 2) Element::template multiply<3, 5, 7>();
      beside();
    }
    float *to = product.scores + pair * step_terms * band_rows;
    store_tile<0>(to, score_stride_bytes);
    store_tile<2>(to + tile_edge * band_rows, score_stride_bytes);
    if (row_tiles == 2) {
      store_tile<1>(to + tile_edge, score_stride_bytes);
      store_tile<3>(to + tile_edge * band_rows + tile_edge, score_stride_bytes);
    }
  }
}

struct ValueProduct {
  const char *values;   // a packed block
  const float *scores;  // weights as pairs of keys, where the pair's first score was
  float *out;           // [feature][band_rows]
  int64_t tiles;        // of features
  KeySteps range;
  bool adds;  // to what is in out
};

// Features of one or two tiles.
template <class Element, int row_tiles, int dim_tiles, class Beside>
FOVEA_INLINE void multiply_value_tiles(const ValueProduct &product, int64_t tile, Beside &beside) {
  float *out = product.out + tile * tile_edge * band_rows;
  float *lower = out + tile_edge * band_rows;
  if (product.adds) {
    load_tile<0>(out, score_stride_bytes);
    if (row_tiles == 2) load_tile<1>(out + tile_edge, score_stride_bytes);
    if (dim_tiles == 2) load_tile<2>(lower, score_stride_bytes);
    if (row_tiles == 2 && dim_tiles == 2) load_tile<3>(lower + tile_edge, score_stride_bytes);
  } else {
    unroll<4>([](auto sum) FOVEA_INLINE_BODY { clear_tile<sum>(); });
  }
  for (int64_t step = product.range.first; step < product.range.last; ++step) {
    const char *values = product.values + (tile * block_steps + step) * tile_bytes;
    const float *weights = product.scores + step * step_terms * band_rows;
    load_tile<4>(values);
    load_tile<6>(weights, 2 * score_stride_bytes);
    Element::template multiply<0, 4, 6>();
    if (row_tiles == 2) {
      load_tile<7>(weights + tile_edge, 2 * score_stride_bytes);
      Element::template multiply<1, 4, 7>();
    }
    if (dim_tiles == 2) {
      load_tile<5>(values + block_steps * tile_bytes);
      Element::template multiply<2, 5, 6>();
      if (row_tiles == 2) Element::template multiply<3, 5, 7>();
    }
    beside();
  }
  store_tile<0>(out, score_stride_bytes);
  if (row_tiles == 2) store_tile<1>(out + tile_edge, score_stride_bytes);
  if (dim_tiles == 2) store_tile<2>(lower, score_stride_bytes);
  if (row_tiles == 2 && dim_tiles == 2) store_tile<3>(lower + tile_edge, score_stride_bytes);
}

template <class Element, int row_tiles, class Beside>
FOVEA_INLINE void multiply_values(const ValueProduct &product, Beside &beside) {
  int64_t tile = 0;
  for (; tile + 2 <= product.tiles; tile += 2) multiply_value_tiles<Element, row_tiles, 2>(product, tile, beside);
  if (tile < product.tiles) multiply_value_tiles<Element, row_tiles, 1>(product, tile, beside);
}

// Queries of a band as tiles: [step of features][tile of rows][pair of features][row].
FOVEA_NOINLINE inline void pack_queries(const void *const *rows, int64_t count, int64_t head_dim, char *to) {
  for (int64_t tile = 0; tile * tile_edge < count; ++tile) {
    for (int64_t d = 0; d < head_dim; d += step_terms) {
      const int64_t width = min_of(step_terms, head_dim - d);
      __m512 square[tile_edge];
      unroll<tile_edge>([&](auto i) FOVEA_INLINE_BODY {
        const int64_t r = tile * tile_edge + i;
        square[i] = r < count ? _mm512_castsi512_ps(load_elements(static_cast<const uint16_t *>(rows[r]) + d, width))
                              : _mm512_setzero_ps();
      });
      transpose_16x16(square);
      char *at = to + (d / step_terms * 2 + tile) * tile_bytes;
      unroll<tile_edge>([&](auto i) FOVEA_INLINE_BODY { _mm512_store_ps(at + i * tile_row_bytes, square[i]); });
    }
  }
}

// All eight tiles hold 16 rows of 64 bytes.
FOVEA_INLINE void configure_whole_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.set(tile, tile_edge);
  configure_tiles(config);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
