// Numbers as callers keep them: float32, bfloat16 or binary16, the last two widened when they are loaded and rounded when
// they are stored. All that is computed in between is float32.
#pragma once

#include "beyond_xsimd/half_floats.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

FOVEA_INLINE Float load(const Bfloat16 *from) { return Float(widen_bfloat16(load_halves(&from->bits))); }
FOVEA_INLINE Float load(const Float16 *from) { return Float(widen_float16(load_halves(&from->bits))); }
FOVEA_INLINE Float load_partial(const Bfloat16 *from, int64_t count) {
  return Float(widen_bfloat16(load_first_halves(&from->bits, count)));
}
FOVEA_INLINE Float load_partial(const Float16 *from, int64_t count) {
  return Float(widen_float16(load_first_halves(&from->bits, count)));
}
FOVEA_INLINE void store(Bfloat16 *to, const Float &value) { store_halves(&to->bits, narrow_bfloat16(value)); }
FOVEA_INLINE void store(Float16 *to, const Float &value) { store_halves(&to->bits, narrow_float16(value)); }
FOVEA_INLINE void store_partial(Bfloat16 *to, const Float &value, int64_t count) {
  store_first_halves(&to->bits, narrow_bfloat16(value), count);
}
FOVEA_INLINE void store_partial(Float16 *to, const Float &value, int64_t count) {
  store_first_halves(&to->bits, narrow_float16(value), count);
}

template <class Element_>
struct Type {
  using Element = Element_;
};

// body(Type<Element>) for an element type known at run time.
template <class Body>
FOVEA_INLINE void with_element(Dtype dtype, const Body &body) {
  switch (dtype) {
    case Dtype::bf16: return body(Type<Bfloat16>{});
    case Dtype::f16: return body(Type<Float16>{});
    default: return body(Type<float>{});
  }
}

// Rows as floats, `to_stride` apart.
FOVEA_NOINLINE inline void widen_rows(const void *from, Dtype dtype, int64_t stride, int64_t count, int64_t dim,
                                      float *to, int64_t to_stride) {
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *rows = static_cast<const typename T::Element *>(from);
    for (int64_t j = 0; j < count; ++j, rows += stride, to += to_stride) {
      int64_t d = 0;
      for (; d + lanes <= dim; d += lanes) store(to + d, load(rows + d));
      if (d < dim) store_partial(to + d, load_partial(rows + d, dim - d), dim - d);
    }
  });
}

// A row of floats as elements of that type.
FOVEA_NOINLINE inline void narrow_row(const float *from, int64_t dim, void *to, Dtype dtype) {
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *row = static_cast<typename T::Element *>(to);
    int64_t d = 0;
    for (; d + lanes <= dim; d += lanes) store(row + d, load(from + d));
    if (d < dim) store_partial(row + d, load_partial(from + d, dim - d), dim - d);
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
