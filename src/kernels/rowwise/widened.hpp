// Rows of 16-bit elements. Where conversions take few instructions (converts_quickly), there are kernels for each type
// and, of positions, each pair of types. Else a block of rows that stays in the first-level cache becomes floats, the
// kernel works on these in place, and what it leaves there is rounded on its way out. Results are those of floats,
// rounded once.
#pragma once

#include "kernels/elements.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// body(Type<Element>) if the kernel is there for rows of that type throughout;
// false if it is not.
template <class Body>
FOVEA_INLINE bool with_kernel_of(bool all_have, Dtype dtype, const Body &body) {
  if (!all_have || (is_widened(dtype) && !converts_quickly)) return false;
  if constexpr (converts_quickly) {
    with_element(dtype, body);
  } else {
    body(Type<float>{});
  }
  return true;
}

// The same for rows of two types that differ: body(Type<X>, Type<Out>).
template <class Body>
FOVEA_INLINE bool with_kernel_of_both(Dtype x_type, Dtype out_type, const Body &body) {
  if constexpr (converts_quickly) {
    with_element(x_type, [&]<class X>(X x) FOVEA_INLINE_BODY {
      with_element(out_type, [&]<class Out>(Out out) FOVEA_INLINE_BODY {
        if constexpr (!same_type<typename X::Element, typename Out::Element>) body(x, out);
      });
    });
  }
  return converts_quickly;
}

constexpr int64_t most_widened = 2048;  // floats of a block: 8 kB

// visit(first_row, row_count, first_column, column_count) for blocks of at most
// that size that cover count x dim elements. Rows are cut only where one is
// longer than a block, into a multiple of 64 columns.
template <class Visit>
FOVEA_INLINE void for_each_block(int64_t count, int64_t dim, const Visit &visit) {
  const int64_t columns = min_of(max_of(dim, 1), most_widened);
  const int64_t rows = most_widened / columns;
  for (int64_t r = 0; r < count; r += rows) {
    for (int64_t c = 0; c < dim; c += columns) visit(r, min_of(rows, count - r), c, min_of(columns, dim - c));
  }
}

// Rows of floats, one after the other, as elements of that type `stride` apart.
FOVEA_NOINLINE inline void round_rows(const float *from, int64_t count, int64_t dim, void *to, Dtype dtype,
                                      int64_t stride) {
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *row = static_cast<typename T::Element *>(to);
    for (int64_t r = 0; r < count; ++r, from += dim, row += stride) {
      int64_t d = 0;
      for (; d + lanes <= dim; d += lanes) store(row + d, load(from + d));
      if (d < dim) store_partial(row + d, load_partial(from + d, dim - d), dim - d);
    }
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
