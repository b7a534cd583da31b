// Where the keys or the values of one head come from. Kernels take them in spans:
//
//   span(first, count, scratch)   those rows as floats: where the first lies, how far apart they are, how many
//   upcoming(first, count)        the same rows, to be prefetched
//
// Rows of float32 are read where they lie. A source whose rows lie otherwise (narrower elements, pages) puts a span into
// scratch, which has room for count rows, and says so; nothing that comes after needs to know.
#pragma once

#include "kernels/attention/problem.hpp"
#include "kernels/prefetch.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct RowSpan {
  const float *rows;
  int64_t stride;
  int64_t count;

  FOVEA_INLINE const float *row(int64_t j) const { return rows + j * stride; }
  // Without its first rows.
  FOVEA_INLINE RowSpan from(int64_t j) const { return {row(j), stride, count - j}; }
};

struct StridedRows {
  const float *first_row;
  int64_t stride;
  int64_t dim;

  FOVEA_INLINE StridedRows(const HeadRows &rows, int64_t batch, int64_t head, int64_t floats)
      : first_row(rows.head(batch, head)), stride(rows.strides.position), dim(floats) {}

  FOVEA_INLINE RowSpan span(int64_t first, int64_t count, float *) const {
    return {first_row + first * stride, stride, count};
  }
  FOVEA_INLINE Upcoming upcoming(int64_t first, int64_t count) const {
    return {first_row + first * stride, stride, dim, count};
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
