// Gradients of activations and of what multiplies them, element by element, as floats (pieces.hpp). An element is read
// before anything is written in its place.
#pragma once

#include "kernels/pieces.hpp"
#include "kernels/products/activation.hpp"
#include "kernels/rowwise/gradient_problem.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Each activation f gives its value f(x), and back, g f'(x).
struct ReluGradient {
  FOVEA_INLINE Float value(const Float &x) const { return relu(x); }
  FOVEA_INLINE Float back(const Float &x, const Float &g) const {
    return choose(x <= 0.0f, zero(), choose(x > 0.0f, g, x));
  }
};
struct GeluGradient {
  FOVEA_INLINE Float value(const Float &x) const { return gelu(x); }
  FOVEA_INLINE Float back(const Float &x, const Float &g) const { return g * gelu_derivative(x); }
};
struct GeluTanhGradient {
  FOVEA_INLINE Float value(const Float &x) const { return gelu_tanh(x); }
  FOVEA_INLINE Float back(const Float &x, const Float &g) const { return g * gelu_tanh_derivative(x); }
};
struct SiluGradient {
  FOVEA_INLINE Float value(const Float &x) const { return silu(x); }
  FOVEA_INLINE Float back(const Float &x, const Float &g) const { return g * silu_derivative(x); }
};
struct NoActivation {
  FOVEA_INLINE Float value(const Float &x) const { return x; }
  FOVEA_INLINE Float back(const Float &, const Float &g) const { return g; }
};

template <class Body>
FOVEA_INLINE void with_activation(Activation kind, const Body &body) {
  switch (kind) {
    case Activation::none: return body(NoActivation());
    case Activation::relu: return body(ReluGradient());
    case Activation::gelu: return body(GeluGradient());
    case Activation::gelu_tanh: return body(GeluTanhGradient());
    case Activation::silu: return body(SiluGradient());
  }
}

void activation_gradients(const ActivationGradients &all) {
  alignas(64) float x_floats[piece_floats], grad_floats[piece_floats], multiplier_floats[piece_floats];
  alignas(64) float grad_multiplier_floats[piece_floats];
  for (int64_t first = 0; first < all.count; first += piece_floats) {
    const int64_t count = min_of(piece_floats, all.count - first);
    const float *x = read_piece(all.x, all.types.x, first, count, x_floats);
    const float *grad = read_piece(all.grad_out, all.types.grad_out, first, count, grad_floats);
    const float *multiplier = all.multiplier == nullptr
                                  ? nullptr
                                  : read_piece(all.multiplier, all.types.multiplier, first, count, multiplier_floats);
    float *grad_x = all.grad_x == nullptr ? nullptr : written_piece(all.grad_x, all.types.grad_x, first, grad_floats);
    float *grad_multiplier =
        all.grad_multiplier == nullptr
            ? nullptr
            : written_piece(all.grad_multiplier, all.types.grad_multiplier, first, grad_multiplier_floats);
    with_activation(all.kind, [&](auto f) FOVEA_INLINE_BODY {
      for_each_register(count, [&](int64_t i, int64_t width) FOVEA_INLINE_BODY {
        const Float value = load_up_to(x + i, width);
        Float g = load_up_to(grad + i, width);
        if (grad_multiplier != nullptr) store_up_to(grad_multiplier + i, g * f.value(value), width);
        if (multiplier != nullptr) g = g * load_up_to(multiplier + i, width);
        if (grad_x != nullptr) store_up_to(grad_x + i, f.back(value, g), width);
      });
    });
    if (grad_x != nullptr) put_piece(grad_x, all.grad_x, all.types.grad_x, first, count);
    if (grad_multiplier != nullptr) {
      put_piece(grad_multiplier, all.grad_multiplier, all.types.grad_multiplier, first, count);
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
