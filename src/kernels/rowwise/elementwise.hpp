// out[i] = f(x[i]) over a contiguous run, for functions of one register. In place allowed: an element is read before it
// is written, and never after. Body and tail do the same arithmetic, so an element's result does not depend on where it
// stands.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/math/by_table.hpp"
#include "kernels/math/narrow.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rowwise/widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Element, class Function>
FOVEA_INLINE void map_elements(const ElementRun &run, const Function &function) {
  const auto *x = static_cast<const Element *>(run.x);
  auto *out = static_cast<Element *>(run.out);
  int64_t i = 0;
  // Two are enough to overlap: the core runs ahead over the iterations by itself.
  for (; i + 2 * lanes <= run.count; i += 2 * lanes) {
    Float a, b;
    load_two_in_any_order(x + i, &a, &b);
    store_two_in_any_order<nans_of<Element>>(out + i, function(a), function(b));
  }
  for (; i < run.count; i += lanes) {
    const int64_t left = min_of(run.count - i, lanes);
    store_partial(out + i, function(load_partial(x + i, left)), left);
  }
}

// Whether there are kernels that take the run. Others, and those from one type to another, go as floats
// (map_as_floats).
FOVEA_INLINE bool has_kernels(const ElementRun &run) {
  return run.x_type == run.out_type && (converts_quickly || !is_widened(run.x_type));
}

template <class Function>
FOVEA_INLINE void map_typed(const ElementRun &run, const Function &function) {
  if constexpr (converts_quickly) {
    with_element(run.x_type, [&]<class X>(X) FOVEA_INLINE_BODY { map_elements<typename X::Element>(run, function); });
  } else {
    map_elements<float>(run, function);
  }
}

#if defined(__AVX2__)
// The same for one type of 16 bits, pairs of registers at a time, in place: function(Type<Element>, &a, &b).
template <class Function>
FOVEA_INLINE void map_pairs(const ElementRun &run, const Function &function) {
  const auto map = [&]<class Element>(Type<Element> type) FOVEA_INLINE_BODY {
    const auto *x = static_cast<const Element *>(run.x);
    auto *out = static_cast<Element *>(run.out);
    Float a, b;
    int64_t i = 0;
    for (; i + pair_lanes <= run.count; i += pair_lanes) {
      load_pair(x + i, &a, &b);
      function(type, &a, &b);
      store_pair(out + i, a, b);
    }
    if (i == run.count) return;
    load_first_of_pair(x + i, run.count - i, 0, &a, &b);
    function(type, &a, &b);
    store_first_of_pair(out + i, a, b, run.count - i);
  };
  with_widened_element(run.x_type, map);
}
#endif

// Piece by piece, as floats.
template <class Map>
FOVEA_INLINE void map_as_floats(const ElementRun &run, const Map &map) {
  alignas(64) float floats[most_widened];
  for (int64_t i = 0; i < run.count; i += most_widened) {
    const int64_t count = min_of(run.count - i, most_widened);
    const float *x = read_piece(run.x, run.x_type, i, count, floats);
    float *out = written_piece(run.out, run.out_type, i, floats);
    map({x, Dtype::f32, out, Dtype::f32, count});
    put_piece(out, run.out, run.out_type, i, count);
  }
}

void exp_elements(const ElementRun &run) {
  if (!has_kernels(run)) return map_as_floats(run, exp_elements);
  const auto exp = [](const Float &value) FOVEA_INLINE_BODY { return exp_by_table(value); };
#if defined(__AVX2__)
  if (!is_widened(run.x_type)) return map_elements<float>(run, exp);
  map_pairs(run, []<class Element>(Type<Element>, Float *a, Float *b) FOVEA_INLINE_BODY { narrow_exp<Element>(a, b); });
#else
  map_typed(run, exp);
#endif
}

void tanh_elements(const ElementRun &run) {
  if (!has_kernels(run)) return map_as_floats(run, tanh_elements);
  const auto tanh = [](const Float &value) FOVEA_INLINE_BODY { return tanh_by_table(value); };
#if defined(__AVX2__)
  if (!is_widened(run.x_type)) return map_elements<float>(run, tanh);
  map_pairs(run,
            []<class Element>(Type<Element>, Float *a, Float *b) FOVEA_INLINE_BODY { narrow_tanh<Element>(a, b); });
#else
  map_typed(run, tanh);
#endif
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
