// Copies of a product's rows as floats, one after the other.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/products/matmul_problem.hpp"

namespace fovea::FOVEA_ISA {
namespace {

inline void copy_float_row(const MatmulRows &rows, int64_t row, float *to) {
  const int64_t stride = rows.a_column_stride;
  const void *from = element_at(rows.a, rows.a_dtype, row * rows.a_row_stride);
  if (stride == 1) return widen_rows(from, rows.a_dtype, 0, 1, rows.depth, to, 0);
  if (!is_widened(rows.a_dtype)) {
    for (int64_t i = 0; i < rows.depth; ++i) to[i] = static_cast<const float *>(from)[i * stride];
    return;
  }
  for (int64_t i = 0; i < rows.depth; i += lanes) {
    uint16_t halves[lanes];
    const int64_t count = min_of(lanes, rows.depth - i);
    for (int64_t j = 0; j < count; ++j) halves[j] = static_cast<const uint16_t *>(from)[(i + j) * stride];
    widen_rows(halves, rows.a_dtype, 0, 1, count, to + i, 0);
  }
}

// Floats that lie as columns, turned around in blocks whose lines are read and written once. They do not follow
// each other in memory: those of the next block are asked for, whether there is one or not.
inline void turn_columns(const MatmulRows &rows) {
  constexpr int64_t side = 16;  // a line
  const auto *a = static_cast<const float *>(rows.a);
  const int64_t stride = rows.a_column_stride, whole = rows.depth / lanes * lanes;
  for (int64_t first = 0; first < whole; first += side) {
    for (int64_t begin = 0; begin < rows.rows; begin += side) {
      for (int64_t i = 0; i < side; ++i) {
        __builtin_prefetch(a + (first + i) * stride + begin + side, 0, 3);
        __builtin_prefetch(rows.to + (begin + side + i) * rows.to_stride + first, 1, 3);
      }
      for (int64_t k = first; k < min_of(first + side, whole); k += lanes) {
        for (int64_t r = begin; r < min_of(begin + side, rows.rows); r += lanes) {
          const float *columns[lanes];
          for (int64_t i = 0; i < lanes; ++i) columns[i] = a + (k + i) * stride + r;
          rows_to_lanes(columns, lanes, min_of(lanes, rows.rows - r), rows.to + r * rows.to_stride + k, rows.to_stride);
        }
      }
    }
  }
  for (int64_t k = whole; k < rows.depth; ++k) {
    for (int64_t r = 0; r < rows.rows; ++r) rows.to[r * rows.to_stride + k] = a[k * stride + r];
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
