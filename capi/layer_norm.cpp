// The C functions of layer and RMS normalisation.
#include "ops/rowwise/layer_norm.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_layer_norm(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                              const fovea_layer_norm_options *options) {
  return guarded([&] { return layer_norm(context, x, out, options); });
}

fovea_status fovea_rms_norm(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *out,
                            const fovea_rms_norm_options *options) {
  return guarded([&] { return rms_norm(context, x, out, options); });
}
