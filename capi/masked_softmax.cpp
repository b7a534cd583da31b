// The C functions of softmax.
#include "ops/rowwise/masked_softmax.hpp"
#include "ops/rowwise/softmax.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_masked_softmax(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *valid_lens,
                                  const fovea_tensor *out, const fovea_masked_softmax_options *options) {
  return guarded([&] { return masked_softmax(context, x, valid_lens, out, options); });
}

fovea_status fovea_softmax(const fovea_context *context, const fovea_tensor *x, int32_t axis, const fovea_tensor *out) {
  return guarded([&] { return softmax(context, x, axis, out, false); });
}

fovea_status fovea_log_softmax(const fovea_context *context, const fovea_tensor *x, int32_t axis,
                               const fovea_tensor *out) {
  return guarded([&] { return softmax(context, x, axis, out, true); });
}
