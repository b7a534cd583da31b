// out[row][column] = sum over k of a[k][row] b[k][column]: gradients of weights, which are sums over rows of two matrices.
// a lies as columns of the left side, and is not turned around before: some rows of out at a time take what they need of
// it as it lies, and the microkernel broadcasts neighbours of one k.
//
// Loops: pieces of rows of out > some of k, whose elements of a are copied to the stack > panels of b > register blocks.
// Sums wait in memory from one of these to the next, and have the order that matmul.hpp gives them: over a k block, in
// chains or in one, and these one after the other.
#pragma once

#include "kernels/products/matmul.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Of k at once: a long chain, or a part of a k block.
constexpr int64_t columns_depth = long_chain;
static_assert(depth_block % columns_depth == 0 && depth_block == columns_alone);

// In strips of as many as a register block takes, whose elements of one k lie side by side.
constexpr int64_t strip_columns = block_rows<block_vectors>;
static_assert(column_piece % strip_columns == 0);

// What a piece has of a. The last strip is filled up with zeros.
struct CopiedColumns {
  alignas(64) float at[columns_depth * column_piece + lanes];

  FOVEA_INLINE const float *strip(int64_t row) const { return at + row * columns_depth; }

  FOVEA_INLINE void copy(const MatmulTask &task, int64_t row, int64_t rows, int64_t k, int64_t depth) {
    for (int64_t first = 0; first < rows; first += strip_columns) {
      const float *from = static_cast<const float *>(task.a) + k * task.a_column_stride + row + first;
      const int64_t width = min_of(strip_columns, rows - first);
      float *to = at + first * columns_depth;
      for (int64_t i = 0; i < depth; ++i, from += task.a_column_stride, to += strip_columns) {
        // What is written behind the strip the next k, or strip, writes over.
        for (int64_t r = 0; r < strip_columns; r += lanes) {
          const int64_t left = width - r;
          store(to + r, left >= lanes ? load(from + r) : left > 0 ? load_partial(from + r, left) : zero());
        }
      }
    }
  }
};

// Where sums of a register block are from one step to the next.
struct ColumnSums {
  float *block;  // those of a k block
  int64_t block_stride;
  float *out;  // those of the k blocks before, and in the end all
  int64_t out_stride;
};

// Some of k. In chains its sums are added to those of the chains before; else they go on from them.
struct ColumnStep {
  int64_t depth;
  bool chains, starts, ends;  // the k block
  bool first;                 // which is the first of all
};

// Where the i-th register of a register block lies in rows so far apart.
template <int i, class Float32>
FOVEA_INLINE Float32 *place(Float32 *rows, int64_t stride) {
  return rows + i / block_vectors * stride + i % block_vectors * lanes;
}

// A whole register block.
FOVEA_NOINLINE inline void multiply_strip(const ColumnStep &step, const float *a, const float *b,
                                          const ColumnSums &sums) {
  Block<strip_columns, block_vectors> block;
  const auto add = [&](const float *from, int64_t stride) FOVEA_INLINE_BODY {
    unroll<strip_columns * block_vectors>(
        [&](auto i) FOVEA_INLINE_BODY { block.at[i] = load(place<decltype(i)::value>(from, stride)) + block.at[i]; });
  };
  float *to = step.ends ? sums.out : sums.block;
  const int64_t stride = step.ends ? sums.out_stride : sums.block_stride;
  unroll<strip_columns>([&](auto r) FOVEA_INLINE_BODY {
    for (int64_t c = 0; c < panel_columns; c += line_floats) __builtin_prefetch(to + r * stride + c, 1, 3);
  });
  if (step.starts || step.chains) {
    block.clear();
  } else {
    unroll<strip_columns * block_vectors>([&](auto i) FOVEA_INLINE_BODY {
      block.at[i] = load(place<decltype(i)::value>(sums.block, sums.block_stride));
    });
  }
  RowPointers<strip_columns, Order::column_major> left(a, strip_columns);
  accumulate(block, left, b, panel_columns, step.depth);
  if (!step.starts && step.chains) add(sums.block, sums.block_stride);
  if (step.ends && !step.first) add(sums.out, sums.out_stride);
  unroll<strip_columns * block_vectors>(
      [&](auto i) FOVEA_INLINE_BODY { store(place<decltype(i)::value>(to, stride), block.at[i]); });
}

// A register block of which only some rows and columns are there: in room of its own.
FOVEA_NOINLINE inline void multiply_edge(const ColumnStep &step, const float *a, const float *b, const ColumnSums &sums,
                                         int64_t rows, int64_t columns) {
  alignas(64) float room[2][strip_columns * panel_columns] = {};
  const auto bytes = static_cast<size_t>(columns) * sizeof(float);
  for (int64_t r = 0; r < rows; ++r) {
    if (!step.starts) memcpy(room[0] + r * panel_columns, sums.block + r * sums.block_stride, bytes);
    if (step.ends && !step.first) memcpy(room[1] + r * panel_columns, sums.out + r * sums.out_stride, bytes);
  }
  multiply_strip(step, a, b, {room[0], panel_columns, room[1], panel_columns});
  for (int64_t r = 0; r < rows; ++r) {
    if (step.ends) {
      memcpy(sums.out + r * sums.out_stride, room[1] + r * panel_columns, bytes);
    } else {
      memcpy(sums.block + r * sums.block_stride, room[0] + r * panel_columns, bytes);
    }
  }
}

FOVEA_NOINLINE inline void multiply_columns(const MatmulTask &task) {
  CopiedColumns copied;
  for (int64_t row = 0; row < task.rows; row += column_piece) {
    const int64_t rows = min_of(column_piece, task.rows - row);
    for (int64_t k = 0; k == 0 || k < task.depth; k += columns_depth) {
      const int64_t depth = min_of(columns_depth, task.depth - k), end = k + depth;
      const ColumnStep step = {.depth = depth,
                               .chains = task.chain == long_chain,
                               .starts = k % depth_block == 0,
                               .ends = end == task.depth || end % depth_block == 0,
                               .first = k < depth_block};
      copied.copy(task, row, rows, k, depth);
      for (int64_t c = 0; c < task.columns; c += panel_columns) {
        const float *b = task.b + c / panel_columns * task.b_panel_stride + FloatPanel::offset(k);
        const int64_t columns = min_of(panel_columns, task.columns - c);
        for (int64_t r = 0; r < rows; r += strip_columns) {
          float *out = static_cast<float *>(task.out) + (row + r) * task.out_row_stride + c;
          ColumnSums sums = {out, task.out_row_stride, out, task.out_row_stride};
          if (!step.first) {
            sums.block = task.block_sums + (row + r) * task.block_sums_stride + c;
            sums.block_stride = task.block_sums_stride;
          }
          if (rows - r >= strip_columns && columns == panel_columns) {
            multiply_strip(step, copied.strip(r), b, sums);
          } else {
            multiply_edge(step, copied.strip(r), b, sums, min_of(strip_columns, rows - r), columns);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
