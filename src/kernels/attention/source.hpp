// Where the keys or the values of one head come from. Kernels take them in spans:
//
//   span(first, count)       those rows: where the first lies, how far apart they are, how many, of which type
//   upcoming(first, count)   the same rows, to be prefetched; a span takes them along, to be asked for while it is read
//
// Rows of float32 are read where they lie. So are narrower ones by few rows of queries, which read each once and widen it
// in registers; many rows have a tile widened into scratch, once for all bands of rows that read it. What lies otherwise
// (pages) can be brought there likewise, and nothing that comes after needs to know.
#pragma once

#include "kernels/attention/problem.hpp"
#include "kernels/elements.hpp"
#include "kernels/prefetch.hpp"
#if defined(__AVX512BF16__)
#include "beyond_xsimd/bfloat16_pairs.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

struct RowSpan {
  const void *data;
  int64_t stride;
  int64_t count;
  Dtype dtype = Dtype::f32;
  Upcoming next = {};

  // Of a span of floats.
  FOVEA_INLINE const float *row(int64_t j) const { return static_cast<const float *>(data) + j * stride; }
  template <class Element>
  FOVEA_INLINE const Element *row_of(int64_t j) const {
    return static_cast<const Element *>(data) + j * stride;
  }
};

// How rows of 16 bits are given: as they lie, as floats, or (bfloat16) as pairs of rows, [pair][feature] of 32 bits each.
enum class RowForm { given, widened, pairs };

#if defined(__AVX512BF16__)
// The last pair of an odd number of rows ends with zeros.
FOVEA_NOINLINE inline void pair_rows(const void *from, int64_t stride, int64_t count, int64_t dim, float *to) {
  const auto *rows = static_cast<const uint16_t *>(from);
  for (int64_t j = 0; j < count; j += 2, to += dim) {
    const uint16_t *first = rows + j * stride;
    for (int64_t d = 0; d < dim; d += 2 * lanes) {
      const int64_t width = min_of(2 * lanes, dim - d);
      const __m512i second = j + 1 < count ? load_first_elements(first + stride + d, width) : _mm512_setzero_si512();
      const PairRegisters pairs = join_rows(load_first_elements(first + d, width), second);
      store_partial(to + d, Float(pairs.low), min_of(lanes, width));
      if (width > lanes) store_partial(to + d + lanes, Float(pairs.high), width - lanes);
    }
  }
}
#else
FOVEA_INLINE void pair_rows(const void *, int64_t, int64_t, int64_t, float *) {}
#endif

// Whether all elements of those rows are.
FOVEA_NOINLINE inline bool rows_are_finite(const void *from, Dtype dtype, int64_t stride, int64_t count, int64_t dim) {
  Float check = zero();  // NaN from the first that is not
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *row = static_cast<const typename T::Element *>(from);
    for (int64_t j = 0; j < count; ++j, row += stride) {
      int64_t d = 0;
      for (; d + lanes <= dim; d += lanes) check = multiply_add(load(row + d), zero(), check);
      if (d < dim) check = multiply_add(load_partial(row + d, dim - d), zero(), check);
    }
  });
  return !xsimd::any(xsimd::isnan(check));
}

struct HeadSource {
  const void *first_row;
  int64_t stride;
  int64_t dim;
  Dtype dtype;
  RowForm form;
  float *scratch;  // room for a tile of rows, if they are not given as they lie
  int64_t made_first = 0, made_last = 0;

  FOVEA_INLINE HeadSource(const HeadRows &rows, int64_t batch, int64_t head, int64_t features, RowForm narrow_form,
                          float *memory)
      : first_row(rows.head(batch, head)),
        stride(rows.strides.position),
        dim(features),
        dtype(rows.dtype),
        form(is_narrow(rows.dtype) ? narrow_form : RowForm::given),
        scratch(memory) {}

  FOVEA_INLINE const void *row(int64_t first) const { return element_at(first_row, dtype, first * stride); }

  FOVEA_INLINE RowSpan span(int64_t first, int64_t count) {
    if (form == RowForm::given) return {row(first), stride, count, dtype};
    const int64_t last = first + count;
    // A pair that only begins within the span must not bring what lies behind it.
    const bool cuts_pair = form == RowForm::pairs && last != made_last && last % 2 != 0;
    if (first < made_first || last > made_last || cuts_pair) {
      made_first = first;
      made_last = last;
      if (form == RowForm::pairs) {
        pair_rows(row(first), stride, count, dim, scratch);
      } else {
        widen_rows(row(first), dtype, stride, count, dim, scratch, dim);
      }
    }
    const int64_t ahead = (first - made_first) / (form == RowForm::pairs ? 2 : 1);
    return {scratch + ahead * dim, dim, count, Dtype::f32};
  }
  FOVEA_INLINE Upcoming upcoming(int64_t first, int64_t count) const { return {row(first), dtype, stride, dim, count}; }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
