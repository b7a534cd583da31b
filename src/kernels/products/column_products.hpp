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

// In strips of so many, whose elements of one k lie side by side: a register block of any shape reads one strip.
constexpr int64_t strip_columns = has_32_registers ? 24 : 12;

// What a piece has of a.
struct CopiedColumns {
  alignas(64) float at[columns_depth * column_piece + lanes];

  FOVEA_INLINE static int64_t offset(int64_t row) {
    return row / strip_columns * strip_columns * columns_depth + row % strip_columns;
  }

  FOVEA_INLINE void copy(const MatmulTask &task, int64_t row, int64_t rows, int64_t k, int64_t depth) {
    for (int64_t first = 0; first < rows; first += strip_columns) {
      const float *from = static_cast<const float *>(task.a) + k * task.a_column_stride + row + first;
      const int64_t width = min_of(strip_columns, rows - first);
      float *to = at + offset(first);
      for (int64_t i = 0; i < depth; ++i, from += task.a_column_stride, to += strip_columns) {
        int64_t r = 0;
        for (; r + lanes <= width; r += lanes) store(to + r, load(from + r));
        if (r < width) store(to + r, load_partial(from + r, width - r));  // the next k, or strip, is written after this
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

template <int rows, int vectors>
FOVEA_INLINE void multiply_columns_of(const ColumnStep &step, const float *a, const float *b, const ColumnSums &sums,
                                      int64_t columns) {
  Block<rows, vectors> block;
  const int64_t width = columns - (vectors - 1) * lanes;
  const SumRows to = {.before = nullptr,
                      .before_stride = 0,
                      .after = step.ends ? sums.out : sums.block,
                      .after_stride = step.ends ? sums.out_stride : sums.block_stride,
                      .dtype = Dtype::f32,
                      .bias = nullptr,
                      .columns = columns};
  const auto add = [&](const float *from, int64_t stride) FOVEA_INLINE_BODY {
    unroll<rows * vectors>([&](auto i) FOVEA_INLINE_BODY {
      const float *before = from + i / vectors * stride + i % vectors * lanes;
      block.at[i] = (i % vectors < vectors - 1 ? load(before) : load_partial(before, width)) + block.at[i];
    });
  };
  prefetch_rows<rows, vectors>(to);
  block.clear();
  if (!step.starts && !step.chains) add(sums.block, sums.block_stride);
  RowPointers<rows, Order::column_major> left(a, strip_columns);
  accumulate(block, left, b, panel_columns, step.depth);
  if (!step.starts && step.chains) add(sums.block, sums.block_stride);
  if (step.ends && !step.first) add(sums.out, sums.out_stride);
  store_rows(block, to);
}

FOVEA_NOINLINE inline void multiply_columns(const MatmulTask &task) {
  CopiedColumns columns;
  for (int64_t row = 0; row < task.rows; row += column_piece) {
    const int64_t rows = min_of(column_piece, task.rows - row);
    for (int64_t k = 0; k == 0 || k < task.depth; k += columns_depth) {
      const int64_t depth = min_of(columns_depth, task.depth - k), end = k + depth;
      const ColumnStep step = {.depth = depth,
                               .chains = task.chain == long_chain,
                               .starts = k % depth_block == 0,
                               .ends = end == task.depth || end % depth_block == 0,
                               .first = k < depth_block};
      columns.copy(task, row, rows, k, depth);
      for (int64_t c = 0; c < task.columns; c += panel_columns) {
        const float *b = task.b + c / panel_columns * task.b_panel_stride + FloatPanel::offset(k);
        const int64_t its_columns = min_of(panel_columns, task.columns - c);
        with_vectors(ceil_div(its_columns, lanes), [&](auto vectors) FOVEA_INLINE_BODY {
          constexpr int count = decltype(vectors)::value;
          for_each_block<count>(rows, [&](auto block, int64_t r) FOVEA_INLINE_BODY {
            float *out = static_cast<float *>(task.out) + (row + r) * task.out_row_stride + c;
            float *sums = step.first ? out : task.block_sums + (row + r) * task.block_sums_stride + c;
            multiply_columns_of<decltype(block)::value, count>(
                step, columns.at + columns.offset(r), b,
                {sums, step.first ? task.out_row_stride : task.block_sums_stride, out, task.out_row_stride},
                its_columns);
          });
        });
      }
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
