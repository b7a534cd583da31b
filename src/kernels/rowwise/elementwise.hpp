// out[i] = f(x[i]) over a contiguous run, for functions of one register. In place allowed: an element is read before it
// is written, and never after. Body and tail do the same arithmetic, so an element's result does not depend on where it
// stands.
#pragma once

#include "kernels/kernel_table.hpp"
#include "kernels/math/by_table.hpp"
#include "kernels/rowwise/widened.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Element, class Function>
FOVEA_INLINE void map_elements(const ElementRun &run, const Function &function) {
  constexpr int together = 2;  // enough to overlap: the core runs ahead over the iterations by itself
  const auto *x = static_cast<const Element *>(run.x);
  auto *out = static_cast<Element *>(run.out);
  int64_t i = 0;
  for (; i + together * lanes <= run.count; i += together * lanes) {
    Float values[together];
    unroll<together>([&](auto v) FOVEA_INLINE_BODY { values[v] = load(x + i + v * lanes); });
    unroll<together>([&](auto v) FOVEA_INLINE_BODY { store(out + i + v * lanes, function(values[v])); });
  }
  for (; i < run.count; i += lanes) {
    const int64_t left = min_of(run.count - i, lanes);
    store_partial(out + i, function(load_partial(x + i, left)), left);
  }
}

// From one type to another piece by piece, as floats.
FOVEA_INLINE void map_mixed(const ElementRun &run, void (*map)(const ElementRun &)) {
  alignas(64) float floats[most_widened];
  for (int64_t i = 0; i < run.count; i += most_widened) {
    const int64_t count = min_of(run.count - i, most_widened);
    widen_rows(element_at(run.x, run.x_type, i), run.x_type, 0, 1, count, floats, 0);
    map({floats, Dtype::f32, floats, Dtype::f32, count});
    narrow_row(floats, count, element_at(run.out, run.out_type, i), run.out_type);
  }
}

void exp_elements(const ElementRun &run) {
  if (run.x_type != run.out_type) return map_mixed(run, exp_elements);
  with_element(run.x_type, [&]<class T>(T) FOVEA_INLINE_BODY {
    map_elements<typename T::Element>(run, [](const Float &value) FOVEA_INLINE_BODY { return exp_by_table(value); });
  });
}

void tanh_elements(const ElementRun &run) {
  if (run.x_type != run.out_type) return map_mixed(run, tanh_elements);
  with_element(run.x_type, [&]<class T>(T) FOVEA_INLINE_BODY {
    map_elements<typename T::Element>(run, [](const Float &value) FOVEA_INLINE_BODY { return tanh_by_table(value); });
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
