// Blocks of a product on AMX's tiles, which hold their sums: 2 x 2 tiles of up to 32 rows, or 1 x 4 of up to 16. What
// is multiplied is a template argument, Terms:
//
//   product_count, products   tiles that a step of 32 of the depth multiplies: which part of the left and of the right operand
//   left_parts                of the left operand, each a tile
//   load_left<tile>(step, s, row_tile, part), load_right<tile>(step, s, column_tile, part)   those of step s
//   multiply<sum, a, b>()
//
// Every sum takes steps and products in their order, whatever is computed beside it.
#pragma once

#include "kernels/tiles.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Up to 32 rows and up to 32 or 64 columns, over some of the depth.
struct TileStep {
  const char *left;         // tiles [tile of rows][step]
  int64_t left_tile_bytes;  // from one tile of rows to the next
  const char *right;        // of a panel, from its first row and column on
  const char *tail;         // the last step's, if that is not whole: filled up with 0; else null
  int64_t half_bytes;       // from one half of a panel to the other, where halves lie apart
  int64_t steps;            // with that one
  float *sums;
  int64_t sums_stride;  // bytes
  int64_t columns;      // of sums that are left
  bool adds;            // sums hold those of the depth before
};

// The operand (0: left, 1: right) is another part than in the product before.
template <class Terms>
constexpr bool changes(int product, int operand) {
  return product == 0 || Terms::products[product][operand] != Terms::products[product - 1][operand];
}

template <int tile>
FOVEA_INLINE void begin_sum(const TileStep &step, const float *sums, int64_t column) {
  if (step.adds && column < step.columns) {
    load_tile<tile>(sums + column, step.sums_stride);
  } else {
    clear_tile<tile>();
  }
}
template <int tile>
FOVEA_INLINE void end_sum(const TileStep &step, float *sums, int64_t column) {
  if (column < step.columns) store_tile<tile>(sums + column, step.sums_stride);
}

// 17 to 32 rows x 32 columns: sums in tiles 0 to 3, the left operand in 4 and 5, the right one in 6 and 7.
template <class Terms>
FOVEA_NOINLINE void multiply_square(const TileStep &step) {
  float *lower = step.sums + tile_edge * (step.sums_stride / static_cast<int64_t>(sizeof(float)));
  begin_sum<0>(step, step.sums, 0);
  begin_sum<1>(step, step.sums, tile_edge);
  begin_sum<2>(step, lower, 0);
  begin_sum<3>(step, lower, tile_edge);
  for (int64_t s = 0; s < step.steps; ++s) {
    unroll<Terms::product_count>([&](auto p) FOVEA_INLINE_BODY {
      constexpr bool new_left = changes<Terms>(p, 0), new_right = changes<Terms>(p, 1);
      constexpr int left = Terms::products[p][0], right = Terms::products[p][1];
      if constexpr (new_left) Terms::template load_left<4>(step, s, 0, left);
      if constexpr (new_right) Terms::template load_right<6>(step, s, 0, right);
      Terms::template multiply<0, 4, 6>();
      if constexpr (new_left) Terms::template load_left<5>(step, s, 1, left);
      Terms::template multiply<2, 5, 6>();
      if constexpr (new_right) Terms::template load_right<7>(step, s, 1, right);
      Terms::template multiply<1, 4, 7>();
      Terms::template multiply<3, 5, 7>();
    });
  }
  end_sum<0>(step, step.sums, 0);
  end_sum<1>(step, step.sums, tile_edge);
  end_sum<2>(step, lower, 0);
  end_sum<3>(step, lower, tile_edge);
}

constexpr int strip_tiles = 4;

// Up to 16 rows x 64 columns: sums in tiles 0 to 3, all parts of the left operand from 4 on, the right one in those
// behind.
template <class Terms>
FOVEA_NOINLINE void multiply_strip(const TileStep &step) {
  constexpr int first_right = strip_tiles + Terms::left_parts;
  unroll<strip_tiles>([&](auto c) FOVEA_INLINE_BODY { begin_sum<c>(step, step.sums, c * tile_edge); });
  for (int64_t s = 0; s < step.steps; ++s) {
    unroll<Terms::left_parts>(
        [&](auto part) FOVEA_INLINE_BODY { Terms::template load_left<strip_tiles + part>(step, s, 0, part); });
    unroll<strip_tiles>([&](auto c) FOVEA_INLINE_BODY {
      constexpr int tile = first_right + decltype(c)::value % (tile_count - first_right);
      unroll<Terms::product_count>([&](auto p) FOVEA_INLINE_BODY {
        if constexpr (changes<Terms>(p, 1)) Terms::template load_right<tile>(step, s, c, Terms::products[p][1]);
        Terms::template multiply<c, strip_tiles + Terms::products[p][0], tile>();
      });
    });
  }
  unroll<strip_tiles>([&](auto c) FOVEA_INLINE_BODY { end_sum<c>(step, step.sums, c * tile_edge); });
}

// Up to 32 rows fill the first tile, then the second. A product takes as long as its tiles have rows.
template <class Terms>
FOVEA_INLINE void configure_rows(int64_t rows) {
  TileConfig config;
  const bool square = rows > tile_edge;
  const int64_t first = min_of(rows, tile_edge);
  const int64_t second = square ? rows - tile_edge : first;
  for (const int tile : {0, 1, 4}) config.set(tile, first);
  for (const int tile : {2, 3}) config.set(tile, second);
  config.set(5, square ? second : Terms::left_parts > 1 ? first : tile_edge);
  config.set(6, !square && Terms::left_parts > 2 ? first : tile_edge);
  config.set(7, tile_edge);
  configure_tiles(config);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
