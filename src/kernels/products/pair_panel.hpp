// bfloat16 times bfloat16 by products of pairs (AVX-512-BF16): a panel's words are operands as they are (panels.hpp), and so
// are two neighbours of a row of the left side. As bits a pair is one 32-bit element: loops, register blocks and copies are
// those of float32, with half the depth.
//
// Products are exact, sums are float32, rounded to nearest even; numbers that are subnormal in float32 count as 0.
#pragma once

#include "kernels/products/matmul.hpp"
#include "kernels/products/pair_products.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct PairPanel {
  static constexpr bool whole = true;

  // A row is whole words, wherever they begin.
  static bool reads_in_place(const MatmulTask &task) {
    return task.a_column_stride == 1 && task.depth % 2 == 0 && (task.a_row_stride % 2 == 0 || task.rows == 1);
  }
  static int64_t left_stride(const MatmulTask &task) { return task.a_row_stride / 2; }
  static int64_t left_depth(int64_t depth) { return ceil_div(depth, 2); }
  static int64_t offset(int64_t k) { return k * panel_columns; }

  static void copy_row(const MatmulTask &task, int64_t row, int64_t k, int64_t depth, float *to) {
    const int64_t stride = task.a_column_stride, elements = min_of(2 * depth, task.depth - 2 * k);
    const uint16_t *from = static_cast<const uint16_t *>(task.a) + row * task.a_row_stride + 2 * k * stride;
    if (stride == 1) {
      memcpy(to, from, static_cast<size_t>(elements) * sizeof *from);
      if (elements < 2 * depth) memset(reinterpret_cast<char *>(to) + 2 * elements, 0, 2);
      return;
    }
    for (int64_t i = 0; i < depth; ++i, from += 2 * stride) {
      const uint16_t pair[2] = {from[0], 2 * i + 1 < elements ? from[stride] : uint16_t{0}};
      memcpy(to + i, pair, sizeof pair);
    }
  }

  template <int rows, int vectors>
  FOVEA_INLINE static void sum(Block<rows, vectors> &block, const float *a, int64_t a_stride, const float *b, int64_t,
                               int64_t depth, int64_t) {
    static_assert(row_panels == 1);
    sum_rows_by_vectors<PairProducts>(block, a, a_stride, b, panel_columns, depth, depth + 1);
  }
};

inline void pairs_block(const MatmulTask &task) { multiply_panels<PairPanel>(task); }

constexpr MatmulKernels pairs_kernels = {.set = FOVEA_SET_NAME,
                                         .panel_columns = panel_columns,
                                         .block_rows = 4 * block_rows<block_vectors>,
                                         .panel_floats = matmul_panel_floats,
                                         .pack = matmul_pack,
                                         .block = pairs_block};

}  // namespace
}  // namespace fovea::FOVEA_ISA
