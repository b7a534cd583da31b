// out = a b. b lies in panels of block_vectors registers, [k][panel_columns]; a's elements are broadcast from where they
// lie, or from a copy of the block at work if a row's elements are not neighbours.
//
// Loops: k blocks (of depth_block rows of a panel, which stream from the second-level cache) > panels > blocks of 6 x 4
// (32 registers) or 6 x 2 (16) of the output, kept in registers over the k block. Every element of the output sums k in
// the same order, however the work is cut.
#pragma once

#include "kernels/matmul_problem.hpp"
#include "kernels/matmul_tile.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t panel_columns = block_vectors * lanes;
// Deep, so that the output is loaded and stored seldom; a panel streams from the second-level cache anyway (2048 x 512 x
// 2048, multiply-adds a cycle: 256: 1.68, 512: 1.76, 768: 1.78, 1024 and more: 1.76).
constexpr int64_t depth_block = 768;

// b transposed in memory (columns contiguous): squares of registers are transposed.
inline void pack_columns(const MatmulPack &pack) {
  for (int64_t c = 0; c < panel_columns; c += lanes) {
    const float *columns[lanes] = {};
    const int64_t count = min_of(lanes, pack.columns - c);
    for (int64_t i = 0; i < count; ++i) columns[i] = pack.b + (c + i) * pack.b_column_stride;
    rows_to_lanes(columns, count > 0 ? count : 0, pack.depth, pack.out + c, panel_columns);
  }
}

inline void matmul_pack(const MatmulPack &pack) {
  if (pack.b_row_stride == 1 && pack.b_column_stride != 1) return pack_columns(pack);
  for (int64_t k = 0; k < pack.depth; ++k) {
    const float *from = pack.b + k * pack.b_row_stride;
    float *to = pack.out + k * panel_columns;
    if (pack.b_column_stride == 1 && pack.columns == panel_columns) {
      unroll<block_vectors>([&](auto v) FOVEA_INLINE_BODY { store(to + v * lanes, load(from + v * lanes)); });
      continue;
    }
    for (int64_t c = 0; c < panel_columns; ++c) to[c] = c < pack.columns ? from[c * pack.b_column_stride] : 0.0f;
  }
}

// One register block of the output over one k block; `first` starts it, else it is added to. The output's lines are
// asked for before the loop and needed after it.
template <int rows, int vectors>
FOVEA_INLINE void multiply_block(const float *a, int64_t a_row_stride, const float *b, int64_t b_row_stride, float *out,
                                 int64_t out_row_stride, int64_t depth, int64_t columns, bool first) {
  Block<rows, vectors> block;
  block.clear();
  unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
    for (int64_t c = 0; c < min_of(columns, vectors * lanes); c += 16) {
      __builtin_prefetch(out + r * out_row_stride + c, 1, 3);
    }
  });
  accumulate<rows, vectors, Order::row_major>(block, a, a_row_stride, b, b_row_stride, depth);
  unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
    unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
      float *at = out + r * out_row_stride + v * lanes;
      const Float &sum = block.at[r * vectors + v];
      const int64_t width = columns - v * lanes;
      if (width >= lanes) {
        store(at, first ? sum : load(at) + sum);
      } else if (width > 0) {
        store_partial(at, first ? sum : load_partial(at, width) + sum, width);
      }
    });
  });
}

// `rows` rows of a at `a`, over one k block, against all panels. The next panel's part of the k block is prefetched on
// the way, a share of it with each block of rows.
FOVEA_NOINLINE void multiply_rows(const MatmulTask &task, const float *a, int64_t a_row_stride, int64_t row,
                                  int64_t rows, int64_t k, int64_t depth) {
  for (int64_t column = 0; column < task.columns; column += panel_columns) {
    const float *b = task.b + column / panel_columns * task.b_panel_stride + k * task.b_row_stride;
    const int64_t columns = min_of(panel_columns, task.columns - column);
    const int64_t ahead = row == 0 && column + panel_columns < task.columns ? depth : 0;
    float *out = task.out + row * task.out_row_stride + column;
    for_each_block<block_vectors>(rows, [&](auto block_rows, int64_t r) FOVEA_INLINE_BODY {
      constexpr int count = decltype(block_rows)::value;
      for (int64_t i = r * ahead / rows; i < (r + count) * ahead / rows; ++i) {
        const float *line = b + task.b_panel_stride + i * task.b_row_stride;
        for (int64_t c = 0; c < panel_columns; c += 16) __builtin_prefetch(line + c, 0, 2);
      }
      multiply_block<count, block_vectors>(a + r * a_row_stride, a_row_stride, b, task.b_row_stride,
                                           out + r * task.out_row_stride, task.out_row_stride, depth, columns, k == 0);
    });
  }
}

// Rows of a copied side by side, one k block at a time, when their elements lie apart. Rows whose elements are neighbours are
// read where they are: copying them cost 14 cycles a line, up to 7 % of a product (2048 x 256 x 256), and gained nothing even
// for rows a power of two apart.
FOVEA_NOINLINE void multiply_copied_rows(const MatmulTask &task, int64_t k, int64_t depth) {
  constexpr int64_t most_rows = 12;
  alignas(64) float copy[most_rows * depth_block];
  for (int64_t row = 0; row < task.rows; row += most_rows) {
    const int64_t rows = min_of(most_rows, task.rows - row);
    for (int64_t r = 0; r < rows; ++r) {
      const float *from = task.a + (row + r) * task.a_row_stride + k * task.a_column_stride;
      for (int64_t i = 0; i < depth; ++i) copy[r * depth_block + i] = from[i * task.a_column_stride];
    }
    multiply_rows(task, copy, depth_block, row, rows, k, depth);
  }
}

inline void matmul_block(const MatmulTask &task) {
  if (task.depth == 0) {
    for (int64_t r = 0; r < task.rows; ++r) {
      memset(task.out + r * task.out_row_stride, 0, static_cast<size_t>(task.columns) * sizeof(float));
    }
    return;
  }
  for (int64_t k = 0; k < task.depth; k += depth_block) {
    const int64_t depth = min_of(depth_block, task.depth - k);
    if (task.a_column_stride == 1) {
      multiply_rows(task, task.a + k, task.a_row_stride, 0, task.rows, k, depth);
    } else {
      multiply_copied_rows(task, k, depth);
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
