// The C functions of gradients.
#include "guard.hpp"
#include "ops/gradients/gradients.hpp"

using namespace fovea;

fovea_status fovea_attention_backward(const fovea_context *context, const fovea_score *score, const fovea_tensor *query,
                                      const fovea_tensor *key, const fovea_tensor *value, const fovea_tensor *out,
                                      const fovea_attention_options *options,
                                      const fovea_attention_gradients *gradients) {
  return guarded([&] {
    return attend_backward(context, {score, query, key, nullptr, value, out, options}, gradients);
  });
}

fovea_status fovea_attention_backward_plan_create(const fovea_context *context, const fovea_score *score,
                                                  const fovea_tensor *query, const fovea_tensor *key,
                                                  const fovea_tensor *value, const fovea_tensor *out,
                                                  const fovea_attention_options *options,
                                                  const fovea_attention_gradients *gradients, fovea_plan **plan) {
  return guarded([&] {
    return make_gradient_plan(context, {score, query, key, nullptr, value, out, options}, gradients, plan);
  });
}
