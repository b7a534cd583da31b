// bfloat16 times bfloat16 by products of pairs (AVX-512-BF16): a panel's words are operands as they are (panels.hpp),
// and so are two neighbours of a row of the left side. As bits a pair is one 32-bit element: loops, register blocks and
// copies are those of float32, with half the depth. Rows of float32 are rounded to bfloat16 in their copies.
//
// Products are exact, sums are float32, rounded to nearest even; numbers that are subnormal in float32 count as 0.
#pragma once

#include "kernels/products/few_rows.hpp"
#include "kernels/products/pair_products.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct PairRows : FloatSums {
  // A row is whole words, wherever they begin.
  static bool reads_in_place(const MatmulTask &task) {
    const bool whole_words = task.depth % 2 == 0 && (task.a_row_stride % 2 == 0 || task.rows == 1);
    return task.a_dtype == Dtype::bf16 && task.a_column_stride == 1 && whole_words;
  }
  static int64_t left_stride(const MatmulTask &task) { return task.a_row_stride / 2; }
  static int64_t left_depth(int64_t depth) { return ceil_div(depth, 2); }
  static int64_t copy_words(int64_t depth) { return left_depth(depth); }

  // Float32 is rounded to nearest, ties to even.
  static void copy_row(const MatmulRows &rows, int64_t row, float *to) {
    const int64_t stride = rows.a_column_stride, depth = rows.depth;
    const void *from = element_at(rows.a, rows.a_dtype, row * rows.a_row_stride);
    auto *halves = reinterpret_cast<char *>(to);
    if (depth % 2 != 0) memset(halves + 2 * depth, 0, 2);
    if (rows.a_dtype == Dtype::bf16) {
      const auto *elements = static_cast<const uint16_t *>(from);
      if (stride == 1) {
        memcpy(halves, elements, static_cast<size_t>(depth) * sizeof *elements);
        return;
      }
      for (int64_t i = 0; i < depth; ++i) memcpy(halves + 2 * i, elements + i * stride, sizeof *elements);
      return;
    }
    const auto *floats = static_cast<const float *>(from);
    if (stride == 1) return narrow_row(floats, depth, halves, Dtype::bf16);
    for (int64_t i = 0; i < depth; i += lanes) {
      float some[lanes];
      const int64_t count = min_of(lanes, depth - i);
      for (int64_t j = 0; j < count; ++j) some[j] = floats[(i + j) * stride];
      narrow_row(some, count, halves + 2 * i, Dtype::bf16);
    }
  }
};

struct PairPanel : PairRows {
  static int64_t offset(int64_t k) { return k * panel_columns; }

  template <int rows, int vectors>
  FOVEA_INLINE static void sum(Block<rows, vectors> &block, const float *a, int64_t a_stride, const float *b, int64_t,
                               int64_t depth, int64_t chain) {
    static_assert(row_panels == 1);
    sum_rows_by_vectors<PairProducts>(block, a, a_stride, b, panel_columns, depth, chain / 2);
  }
};

// Two rows of b where they lie, joined in registers.
struct PairsInPlace : PairRows {
  using Element = Bfloat16;
  using Terms = PairProducts;
  static constexpr int64_t met = 2;

  template <int vectors, bool whole>
  FOVEA_INLINE static void load(const Element *from, int64_t stride, int64_t columns, int64_t second, Float *row) {
    unroll<(vectors + 1) / 2>([&](auto pair) FOVEA_INLINE_BODY {
      constexpr int v = 2 * decltype(pair)::value;
      const uint16_t *first_row = &from[v * lanes].bits, *second_row = &from[stride + v * lanes].bits;
      const auto some = [&](const uint16_t *at, int64_t count) FOVEA_INLINE_BODY {
        return whole ? load_elements(at) : load_first_elements(at, max_of(count - v * lanes, 0));
      };
      const PairRegisters pairs = join_rows(some(first_row, columns), some(second_row, second));
      row[v] = Float(pairs.low);
      if constexpr (v + 1 < vectors) row[v + 1] = Float(pairs.high);
    });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
