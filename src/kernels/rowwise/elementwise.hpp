// out[i] = f(x[i]) over a contiguous run, for functions of one register. In place allowed: an element is read before it
// is written, and never after. Body and tail do the same arithmetic, so an element's result does not depend on where it
// stands.
#pragma once

#include "kernels/math/exp.hpp"
#include "kernels/math/tanh.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Function>
FOVEA_INLINE void map_elements(const float *x, float *out, int64_t count, const Function &function) {
  constexpr int together = 2;  // enough to overlap: the core runs ahead over the iterations by itself
  int64_t i = 0;
  for (; i + together * lanes <= count; i += together * lanes) {
    Float values[together];
    unroll<together>([&](auto v) FOVEA_INLINE_BODY { values[v] = load(x + i + v * lanes); });
    unroll<together>([&](auto v) FOVEA_INLINE_BODY { store(out + i + v * lanes, function(values[v])); });
  }
  for (; i < count; i += lanes) {
    const int64_t left = min_of(count - i, lanes);
    store_partial(out + i, function(load_partial(x + i, left)), left);
  }
}

void exp_elements(const float *x, float *out, int64_t count) {
  map_elements(x, out, count, [](const Float &value) FOVEA_INLINE_BODY { return exp_register(value); });
}

void tanh_elements(const float *x, float *out, int64_t count) {
  map_elements(x, out, count, [](const Float &value) FOVEA_INLINE_BODY { return tanh_register(value); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
