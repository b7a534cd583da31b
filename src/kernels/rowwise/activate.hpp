// out[i] = f(x[i]) for the activations of products/activation.hpp, as elementwise.hpp passes over elements. From one type to
// another, pieces go as floats: there are kernels only from each type to itself.
#pragma once

#include "kernels/products/activation.hpp"
#include "kernels/rowwise/elementwise.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Function>
FOVEA_INLINE void activate_by(const ElementRun &run, const Function &function) {
  with_element(run.x_type, [&]<class X>(X) FOVEA_INLINE_BODY {
    map_elements<typename X::Element, typename X::Element>(run, function);
  });
}

FOVEA_NOINLINE void activate_typed(const ElementRun &run, Activation kind) {
  switch (kind) {
    case Activation::none: return activate_by(run, [](const Float &x) FOVEA_INLINE_BODY { return x; });
    case Activation::relu: return activate_by(run, [](const Float &x) FOVEA_INLINE_BODY { return relu(x); });
    case Activation::gelu: return activate_by(run, [](const Float &x) FOVEA_INLINE_BODY { return gelu(x); });
    case Activation::gelu_tanh: return activate_by(run, [](const Float &x) FOVEA_INLINE_BODY { return gelu_tanh(x); });
    case Activation::silu: return activate_by(run, [](const Float &x) FOVEA_INLINE_BODY { return silu(x); });
  }
}

void activate_elements(const ElementRun &run, Activation kind) {
  if (run.x_type == run.out_type) return activate_typed(run, kind);
  map_as_floats(run, [kind](const ElementRun &floats) { activate_typed(floats, kind); });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
