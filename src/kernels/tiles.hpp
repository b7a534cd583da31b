// What all kernels on AMX tiles share: who has the tiles, which elements they multiply, how elements come into them.
//
// Tiles are a thread's, and a kernel takes them for one task: then they are released, as a thread whose tiles are in
// use has 8 kB more to be saved whenever it is interrupted. What a caller's own code has in the tiles of this thread is
// put aside and put back: asking costs one store, and only who uses tiles pays for the rest.
#pragma once

#include "beyond_xsimd/amx_tiles.hpp"
#include "kernels/elements.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

static_assert(lanes == tile_edge);

template <class Body>
FOVEA_NOINLINE void beside_other_tiles(const TileConfig &config, const Body &body) {
  alignas(64) char kept[tile_count * tile_bytes];
  unroll<tile_count>([&](auto t) FOVEA_INLINE_BODY {
    if (config.rows[t] != 0) store_tile<t>(kept + t * tile_bytes, tile_row_bytes);
  });
  body();
  configure_tiles(config);
  unroll<tile_count>([&](auto t) FOVEA_INLINE_BODY {
    if (config.rows[t] != 0) load_tile<t>(kept + t * tile_bytes);
  });
}

// body() may configure tiles as it likes.
template <class Body>
FOVEA_NOINLINE void with_tiles(const Body &body) {
  TileConfig config;
  read_configuration(&config);
  if (config.palette != 0) return beside_other_tiles(config, body);
  body();
  release_tiles();
}

struct Bfloat16Tiles {
  static constexpr Dtype dtype = Dtype::bf16;

  template <int sum, int a, int b>
  FOVEA_INLINE static void multiply() {
    multiply_tiles<sum, a, b>();
  }
};

struct Float16Tiles {
  static constexpr Dtype dtype = Dtype::f16;

  template <int sum, int a, int b>
  FOVEA_INLINE static void multiply() {
    multiply_float16_tiles<sum, a, b>();
  }
};

// `count` of up to 32 elements, the others 0.
FOVEA_INLINE __m512i load_elements(const uint16_t *from, int64_t count) {
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>(_bzhi_u64(0xffffffff, static_cast<uint32_t>(count))), from);
}

// Up to 32 rows of up to 16 elements, turned into a tile: row i has element i of all of them. What is not there is 0.
FOVEA_INLINE void turn_rows(const uint16_t *rows, int64_t stride, int64_t count, int64_t width, char *to) {
  __m512 pairs[tile_edge];
  unroll<tile_edge>([&](auto i) FOVEA_INLINE_BODY {
    const int64_t first = 2 * i;
    const uint16_t *row = rows + first * stride;
    const Halves low = first < count ? load_first_halves(row, width) : _mm256_setzero_si256();
    const Halves high = first + 1 < count ? load_first_halves(row + stride, width) : _mm256_setzero_si256();
    pairs[i] = _mm512_castsi512_ps(join_rows(low, high));
  });
  transpose_16x16(pairs);
  unroll<tile_edge>([&](auto i) FOVEA_INLINE_BODY { _mm512_store_ps(to + i * tile_row_bytes, pairs[i]); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
