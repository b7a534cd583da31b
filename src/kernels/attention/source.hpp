// Where the keys or the values of one head come from. Kernels take them in spans:
//
//   span(first, count)       those rows: where the first lies, how far apart they are, how many, of which type
//   upcoming(first, count)   the same rows, to be prefetched
//
// Rows of float32 are read where they lie. So are narrower ones by few rows of queries, which read each once and widen it
// in registers; many rows have a tile widened into scratch, once for all bands of rows that read it. What lies otherwise
// (pages) can be brought there likewise, and nothing that comes after needs to know.
#pragma once

#include "kernels/attention/problem.hpp"
#include "kernels/elements.hpp"
#include "kernels/prefetch.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct RowSpan {
  const void *data;
  int64_t stride;
  int64_t count;
  Dtype dtype = Dtype::f32;

  // Of a span of floats.
  FOVEA_INLINE const float *row(int64_t j) const { return static_cast<const float *>(data) + j * stride; }
  template <class Element>
  FOVEA_INLINE const Element *row_of(int64_t j) const {
    return static_cast<const Element *>(data) + j * stride;
  }
};

struct HeadSource {
  const void *first_row;
  int64_t stride;
  int64_t dim;
  Dtype dtype;
  float *widened;  // room for a tile of rows; null: they are given as they lie
  int64_t widened_first = 0, widened_last = 0;

  FOVEA_INLINE HeadSource(const HeadRows &rows, int64_t batch, int64_t head, int64_t features, float *scratch)
      : first_row(rows.head(batch, head)),
        stride(rows.strides.position),
        dim(features),
        dtype(rows.dtype),
        widened(is_narrow(rows.dtype) ? scratch : nullptr) {}

  FOVEA_INLINE const void *row(int64_t first) const { return element_at(first_row, dtype, first * stride); }

  FOVEA_INLINE RowSpan span(int64_t first, int64_t count) {
    if (widened == nullptr) return {row(first), stride, count, dtype};
    if (first < widened_first || first + count > widened_last) {
      widened_first = first;
      widened_last = first + count;
      widen_rows(row(first), dtype, stride, count, dim, widened, dim);
    }
    return {widened + (first - widened_first) * dim, dim, count, Dtype::f32};
  }
  FOVEA_INLINE Upcoming upcoming(int64_t first, int64_t count) const { return {row(first), dtype, stride, dim, count}; }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
