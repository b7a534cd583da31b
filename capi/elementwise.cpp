// The C functions of the elementwise operations, and of numbers of 8 bits.
#include "ops/rowwise/elementwise.hpp"
#include "ops/rowwise/quantize.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_exp(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out) {
  return guarded([&] { return exp_elements(context, x, out); });
}

fovea_status fovea_tanh(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out) {
  return guarded([&] { return tanh_elements(context, x, out); });
}

fovea_status fovea_activation(const fovea_context *context, int32_t activation, const fovea_tensor *x,
                              const fovea_tensor *out) {
  return guarded([&] { return activate_elements(context, activation, x, out); });
}

fovea_status fovea_quantize(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                            const fovea_tensor *scales) {
  return guarded([&] { return quantize(context, x, out, scales); });
}

fovea_status fovea_dequantize(const fovea_context *context, const fovea_tensor *q, const fovea_tensor *scales,
                              const fovea_tensor *out) {
  return guarded([&] { return dequantize(context, q, scales, out); });
}
