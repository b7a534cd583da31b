// The C functions of the elementwise operations.
#include "ops/rowwise/elementwise.hpp"

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
