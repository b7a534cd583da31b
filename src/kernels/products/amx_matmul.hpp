// out = a b in float32 on tiles of bfloat16. With a = a0 + a1 + a2 and b likewise (bfloat16_parts.hpp)
//
//   a b = a0 b0 + (a0 b1 + a1 b0) + (a0 b2 + a1 b1 + a2 b0)        to 2^-26 |a b|
//
// which is six of the tile unit's products, each exact before it is added. A tile's product adds 32 elements before it
// is rounded into the sum, so a sum of k elements is rounded k / 32 times six times, not k times: the error is below
// that of a chain of multiply-adds (of 256 elements of [-1, 1]: at most 4.9e-6, where a plain sum's was 1.2e-5).
//
// Tiles take denormals as 0, and parts of an infinite or huge element mean nothing. So rows and panels with an element
// outside of [2^-48, 2^60] (and not 0) are multiplied by avx512's kernels, row by row and panel by panel: what the
// result of a row is does not depend on its neighbours.
//
// A panel holds its columns as products/matmul.hpp wants them, then their parts, then whether it is usual. Parts are
// tiles of 16 pairs of rows x 16 columns, [half of the panel][step][tile of columns][part]: they are read one after the
// other. Row i of a step of 32 is paired with row 16 + i, and so are a row's elements. Rows of a are taken apart 32 at
// a time, parts_depth elements of each, before all panels pass by.
//
// Limit: a product of tiles takes 16 cycles, 32 x 32 elements of out 64 x 6 a step, and the 14 tiles read for that 8
// each from the first-level cache. Other work on the core's other hardware thread takes more than half of that speed
// away.
#pragma once

#include "beyond_xsimd/bfloat16_parts.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/products/panels.hpp"
#include "kernels/products/plain.hpp"
#include "kernels/products/tile_blocks.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t step_depth = step_terms;
constexpr int64_t parts_bytes = 3 * tile_bytes;  // of one tile
constexpr int64_t parts_depth = 256;
constexpr int64_t parts_rows = 2 * tile_edge;
constexpr int64_t column_tiles = panel_columns / tile_edge;
constexpr int64_t half_tiles = 2;
constexpr int64_t half_step_bytes = half_tiles * parts_bytes;
constexpr int64_t half_columns = half_tiles * tile_edge;
static_assert(column_tiles == 2 * half_tiles && column_tiles == strip_tiles);

// The size of a panel; only float32 has parts.
inline int64_t parts_panel_floats(int64_t depth, Dtype = Dtype::f32) {
  const int64_t parts = ceil_div(depth, step_depth) * column_tiles * parts_bytes;
  return matmul_panel_floats(depth, Dtype::f32) + parts / static_cast<int64_t>(sizeof(float)) + lanes;
}

// Whether all elements met are 0 or of a usual size. Bits of |x| grow with |x|.
class UsualSizes {
 public:
  FOVEA_INLINE void meet(__m512 x) {
    const __m512i size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    largest_ = _mm512_max_epu32(largest_, size);
    least_ = _mm512_min_epu32(least_, _mm512_sub_epi32(size, _mm512_set1_epi32(1)));  // 0 becomes the largest
  }
  FOVEA_INLINE bool hold() const {
    constexpr uint32_t least = (127u - 48u) << 23;
    constexpr uint32_t largest = (127u + 60u) << 23;
    return _mm512_reduce_max_epu32(largest_) <= largest && _mm512_reduce_min_epu32(least_) >= least - 1;
  }

 private:
  __m512i largest_ = _mm512_setzero_si512();
  __m512i least_ = _mm512_set1_epi32(-1);
};

FOVEA_INLINE const char *panel_parts(const float *panel, int64_t depth) {
  return reinterpret_cast<const char *>(panel + matmul_panel_floats(depth, Dtype::f32));
}
// Where row k of a tile of columns lies, in bytes.
FOVEA_INLINE int64_t tile_offset(int64_t tile, int64_t k, int64_t depth) {
  const int64_t half_bytes = ceil_div(depth, step_depth) * half_step_bytes;
  return tile / half_tiles * half_bytes + k / step_depth * half_step_bytes + tile % half_tiles * parts_bytes;
}
FOVEA_INLINE bool is_usual(const float *panel, int64_t depth) {
  return panel[parts_panel_floats(depth) - lanes] != 0.0f;
}

inline void parts_pack(const MatmulPack &pack) {
  matmul_pack(pack);
  UsualSizes sizes;
  char *parts_begin = const_cast<char *>(panel_parts(pack.out, pack.depth));
  const auto row = [&](int64_t k, int64_t column) FOVEA_INLINE_BODY {
    return k < pack.depth ? load(pack.out + k * panel_columns + column) : zero();
  };
  for (int64_t k = 0; k < pack.depth; k += step_depth) {
    for (int64_t tile = 0; tile < column_tiles; ++tile) {
      char *to = parts_begin + tile_offset(tile, k, pack.depth);
      for (int64_t pair = 0; pair < tile_edge; ++pair) {
        const __m512 first = row(k + pair, tile * tile_edge);
        const __m512 second = row(k + tile_edge + pair, tile * tile_edge);
        sizes.meet(first);
        sizes.meet(second);
        const BFloat16Parts parts = parts_of_pairs(first, second);
        for (int64_t p = 0; p < 3; ++p) _mm512_store_si512(to + p * tile_bytes + pair * tile_row_bytes, parts.part[p]);
      }
    }
  }
  store(pack.out + parts_panel_floats(pack.depth) - lanes, splat(sizes.hold() ? 1.0f : 0.0f));
}

// Takes `depth` elements of each row apart, as tiles [tile of rows][step][part]. Bit r of the result: row r is unusual.
inline uint32_t take_rows_apart(const float *a, int64_t row_stride, int64_t rows, int64_t depth, char *to) {
  const int64_t tile_stride = ceil_div(depth, step_depth) * parts_bytes;
  uint32_t unusual = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float *from = a + r * row_stride;
    char *at = to + r / tile_edge * tile_stride + r % tile_edge * tile_row_bytes;
    UsualSizes sizes;
    for (int64_t k = 0; k < depth; k += step_depth, at += parts_bytes) {
      const int64_t left = depth - k;
      const __m512 first = left >= lanes ? load(from + k) : load_partial(from + k, left);
      const __m512 second = left >= step_depth ? load(from + k + lanes)
                            : left > lanes     ? load_partial(from + k + lanes, left - lanes)
                                               : zero();
      sizes.meet(first);
      sizes.meet(second);
      const BFloat16Parts parts = parts_of_pairs(first, second);
      for (int64_t p = 0; p < 3; ++p) _mm512_store_si512(at + p * tile_bytes, parts.part[p]);
    }
    unusual |= static_cast<uint32_t>(!sizes.hold()) << r;
  }
  return unusual;
}

// The six products, which parts of a and of b: few tiles change from one to the next.
struct PartsTerms : Bfloat16Tiles {
  static constexpr int product_count = 6, left_parts = 3;
  static constexpr int products[product_count][2] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}};

  template <int tile>
  FOVEA_INLINE static void load_left(const TileStep &step, int64_t s, int64_t row_tile, int64_t part) {
    load_tile<tile>(step.left + row_tile * step.left_tile_bytes + s * parts_bytes + part * tile_bytes);
  }
  template <int tile>
  FOVEA_INLINE static void load_right(const TileStep &step, int64_t s, int64_t column_tile, int64_t part) {
    const char *column =
        step.right + column_tile / half_tiles * step.half_bytes + column_tile % half_tiles * parts_bytes;
    load_tile<tile>(column + s * half_step_bytes + part * tile_bytes);
  }
};

// Rows of a task, up to 32, that lie in `parts` from element k of the depth on, against all its panels.
FOVEA_INLINE void multiply_parts(const MatmulTask &task, int64_t row, int64_t rows, int64_t k, const char *parts) {
  const int64_t steps = ceil_div(min_of(parts_depth, task.depth - k), step_depth);
  TileStep step = {.left = parts,
                   .left_tile_bytes = steps * parts_bytes,
                   .right = nullptr,
                   .tail = nullptr,
                   .half_bytes = tile_offset(half_tiles, 0, task.depth),
                   .steps = steps,
                   .sums = static_cast<float *>(task.out) + row * task.out_row_stride,
                   .sums_stride = task.out_row_stride * static_cast<int64_t>(sizeof(float)),
                   .columns = task.columns,
                   .adds = k > 0};
  const int64_t width = rows <= tile_edge ? panel_columns : half_columns;
  for (int64_t column = 0; column < task.columns; column += width) {
    const float *panel = task.b + column / panel_columns * task.b_panel_stride;
    step.right = panel_parts(panel, task.depth) + tile_offset(column % panel_columns / tile_edge, k, task.depth);
    rows <= tile_edge ? multiply_strip<PartsTerms>(step) : multiply_square<PartsTerms>(step);
    step.sums += width;
    step.columns -= width;
  }
}

// One row, all its columns, by multiply-adds.
FOVEA_NOINLINE void multiply_row_plainly(const MatmulTask &task, int64_t row) {
  MatmulTask part = task;
  part.a = static_cast<const float *>(task.a) + row * task.a_row_stride;
  part.out = static_cast<float *>(task.out) + row * task.out_row_stride;
  part.rows = 1;
  products_avx512.block(part);
}

FOVEA_NOINLINE void multiply_panel_plainly(const MatmulTask &task, int64_t column) {
  MatmulTask part = task;
  part.b += column / panel_columns * task.b_panel_stride;
  part.out = static_cast<float *>(task.out) + column;
  part.columns = min_of(panel_columns, task.columns - column);
  products_avx512.block(part);
}

// Up to 32 rows against all panels. Bit r of the result: row r is unusual, so has to be done otherwise; by then these
// parts, 48 kB, have left the stack.
FOVEA_NOINLINE uint32_t multiply_rows_by_parts(const MatmulTask &task, int64_t row, int64_t rows) {
  alignas(64) char parts[2 * parts_depth / step_depth * parts_bytes];
  uint32_t unusual = 0;
  configure_rows<PartsTerms>(rows);
  for (int64_t k = 0; k == 0 || k < task.depth; k += parts_depth) {
    const float *a = static_cast<const float *>(task.a) + row * task.a_row_stride + k;
    unusual |= take_rows_apart(a, task.a_row_stride, rows, min_of(parts_depth, task.depth - k), parts);
    multiply_parts(task, row, rows, k, parts);
  }
  return unusual;
}

// Only for products with nothing to follow, of rows whose elements are neighbours; out's rows have room for whole
// tiles.
inline void parts_block(const MatmulTask &task) {
  with_tiles([&] {
    for (int64_t row = 0; row < task.rows; row += parts_rows) {
      const int64_t rows = min_of(parts_rows, task.rows - row);
      const uint32_t unusual = multiply_rows_by_parts(task, row, rows);
      for (int64_t r = 0; r < rows; ++r) {
        if ((unusual >> r & 1) != 0) multiply_row_plainly(task, row + r);
      }
    }
  });
  for (int64_t column = 0; column < task.columns; column += panel_columns) {
    if (!is_usual(task.b + column / panel_columns * task.b_panel_stride, task.depth)) {
      multiply_panel_plainly(task, column);
    }
  }
}

constexpr MatmulKernels parts_kernels = {.set = FOVEA_SET_NAME,
                                         .panel_columns = panel_columns,
                                         .block_rows = parts_rows,
                                         .panel_floats = parts_panel_floats,
                                         .pack = parts_pack,
                                         .block = parts_block};

}  // namespace
}  // namespace fovea::FOVEA_ISA
