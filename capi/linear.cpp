// The C functions of linear layers.
#include "ops/products/linear.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_linear_pack(const fovea_context *context, const fovea_tensor *weight,
                               const fovea_linear_pack_options *options, fovea_packed_matrix **packed) {
  return guarded([&] { return linear_pack(context, weight, options, packed); });
}

fovea_status fovea_linear(const fovea_context *context, const fovea_tensor *x, const fovea_packed_matrix *weight,
                          const fovea_tensor *out, const fovea_linear_options *options) {
  return guarded([&] { return linear(context, x, weight, out, options); });
}
