// Pieces of rows of any element type as floats: read where they lie or from a buffer, written where they go or by way
// of one.
#pragma once

#include "kernels/elements.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t piece_floats = 1024;

// body(offset, width): whole registers, then what is left.
template <class Body>
FOVEA_INLINE void for_each_register(int64_t count, const Body &body) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, lanes);
  if (i < count) body(i, count - i);
}

template <class Element>
FOVEA_INLINE Float load_up_to(const Element *from, int64_t count) {
  return count == lanes ? load(from) : load_partial(from, count);
}
template <class Element>
FOVEA_INLINE void store_up_to(Element *to, const Float &value, int64_t count) {
  if (count == lanes) {
    store(to, value);
  } else {
    store_partial(to, value, count);
  }
}

// `count` elements from `first` on; `floats` holds them if they are not floats.
FOVEA_INLINE const float *read_piece(const void *from, Dtype dtype, int64_t first, int64_t count, float *floats) {
  if (dtype == Dtype::f32) return static_cast<const float *>(from) + first;
  widen_rows(element_at(from, dtype, first), dtype, 0, 1, count, floats, 0);
  return floats;
}

// Where to write such a piece, and its end: put_piece makes elements of what `floats` holds.
FOVEA_INLINE float *written_piece(void *to, Dtype dtype, int64_t first, float *floats) {
  return dtype == Dtype::f32 ? static_cast<float *>(to) + first : floats;
}
FOVEA_INLINE void put_piece(const float *piece, void *to, Dtype dtype, int64_t first, int64_t count) {
  if (dtype != Dtype::f32) narrow_row(piece, count, element_at(to, dtype, first), dtype);
}

// A sum over a row: registers of floats, which are added up in float64 piece by piece.
struct RowSum {
  double total = 0.0;
  Float first = zero(), second = zero();  // by turns, so that one addition need not wait for the other

  FOVEA_INLINE void finish_piece() {
    total += static_cast<double>(horizontal_sum(first + second));
    first = second = zero();
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
