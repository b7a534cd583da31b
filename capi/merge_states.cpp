// The C function that merges partial attention.
#include "ops/attention/merge_states.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_merge_states(const fovea_context *context, const fovea_tensor *outs, const fovea_tensor *lses,
                                const fovea_tensor *out, const fovea_tensor *log_sum_exp) {
  return guarded([&] { return merge_states(context, outs, lses, out, log_sum_exp); });
}
