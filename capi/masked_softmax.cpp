// The C function of masked softmax.
#include "ops/rowwise/masked_softmax.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_masked_softmax(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *valid_lens,
                                  const fovea_tensor *out, const fovea_masked_softmax_options *options) {
  return guarded([&] { return masked_softmax(context, x, valid_lens, out, options); });
}
