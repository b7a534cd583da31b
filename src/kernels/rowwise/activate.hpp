// out[i] = f(x[i]) for the activations of products/activation.hpp, as elementwise.hpp passes over elements.
#pragma once

#include "kernels/products/activation.hpp"
#include "kernels/rowwise/elementwise.hpp"

namespace fovea::FOVEA_ISA {
namespace {

FOVEA_NOINLINE void activate_typed(const ElementRun &run, Activation kind) {
  switch (kind) {
    case Activation::none: return map_typed(run, [](const Float &x) FOVEA_INLINE_BODY { return x; });
    case Activation::relu: return map_typed(run, [](const Float &x) FOVEA_INLINE_BODY { return relu(x); });
    case Activation::gelu: return map_typed(run, [](const Float &x) FOVEA_INLINE_BODY { return gelu(x); });
    case Activation::gelu_tanh: return map_typed(run, [](const Float &x) FOVEA_INLINE_BODY { return gelu_tanh(x); });
    case Activation::silu: return map_typed(run, [](const Float &x) FOVEA_INLINE_BODY { return silu(x); });
  }
}

void activate_elements(const ElementRun &run, Activation kind) {
  if (has_kernels(run)) return activate_typed(run, kind);
  map_as_floats(run, [kind](const ElementRun &floats) { activate_typed(floats, kind); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
