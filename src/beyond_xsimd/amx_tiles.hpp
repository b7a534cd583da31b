// AMX: eight tile registers of up to 16 rows of 64 bytes, and their products of pairs of bfloat16 or, with AMX-FP16,
// binary16.
//   multiply_tiles<sum, a, b>:  sum[m][n] += sum_k a[m][2k] b[k][2n] + sum_k a[m][2k+1] b[k][2n+1]
// Each of the two sums starts at 0 and is taken in order, with one rounding to float32 a step; denormals count as 0,
// but for those of binary16 elements, which float32 holds (Intel's Software Developer's Manual, volume 2, TDPBF16PS,
// TDPFP16PS). How many rows a tile has is part of the configuration.
//
// Written as instructions: GCC's intrinsics want a literal for a tile's number, which a template's parameter is not.
// Clang 14 does not know the product of binary16, so that is written as bytes.
#pragma once

#include <stdint.h>

namespace fovea::FOVEA_ISA {
namespace {

constexpr int tile_bytes = 1024;
constexpr int tile_row_bytes = 64;
constexpr int tile_count = 8;
constexpr int64_t tile_edge = 16;   // rows of a tile, and columns of a tile of sums
constexpr int64_t step_terms = 32;  // that a product of tiles sums up

// Operand of ldtilecfg: palette 1, rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t row_count) {
    row_bytes[tile] = tile_row_bytes;
    rows[tile] = static_cast<uint8_t>(row_count);
  }
};

// What the thread has configured; of palette 0 if nothing.
inline __attribute__((always_inline)) void read_configuration(TileConfig *config) {
  __asm__ volatile("sttilecfg %0" : "=m"(*config));
}

// All tiles become 0. They belong to the thread, and are released when it is done: switching threads saves them.
inline __attribute__((always_inline)) void configure_tiles(const TileConfig &config) {
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
}
inline __attribute__((always_inline)) void release_tiles() { __asm__ volatile("tilerelease"); }

template <int tile>
inline __attribute__((always_inline)) void clear_tile() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(tile));
}

template <int tile>
inline __attribute__((always_inline)) void load_tile(const void *from, int64_t row_stride_bytes = tile_row_bytes) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_stride_bytes), "i"(tile) : "memory");
}

template <int tile>
inline __attribute__((always_inline)) void store_tile(void *to, int64_t row_stride_bytes) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row_stride_bytes), "i"(tile) : "memory");
}

template <int sum, int a, int b>
inline __attribute__((always_inline)) void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(a), "i"(b));
}

template <int sum, int a, int b>
inline __attribute__((always_inline)) void multiply_float16_tiles() {
  __asm__ volatile(".byte 0xc4, 0xe2, %c0, 0x5c, %c1" : : "i"((~b & 15) << 3 | 3), "i"(0xc0 | sum << 3 | a));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
