// The C functions of multi-head attention.
#include "ops/multi_head/multi_head.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_mha_weights_create(const fovea_context *context, const fovea_mha_parameters *parameters,
                                      fovea_mha_weights **weights) {
  return guarded([&] { return create_mha_weights(context, parameters, weights); });
}

void fovea_mha_weights_destroy(fovea_mha_weights *weights) { delete weights; }

size_t fovea_mha_weights_size(const fovea_mha_weights *weights) { return weights == nullptr ? 0 : weights->size; }

fovea_status fovea_multi_head_attention(const fovea_context *context, const fovea_mha_weights *weights,
                                        const fovea_tensor *query, const fovea_tensor *key, const fovea_tensor *value,
                                        const fovea_tensor *out, const fovea_mha_options *options) {
  return guarded([&] { return multi_head_attention(context, weights, {query, key, value, out}, options); });
}

fovea_status fovea_multi_head_attention_once(const fovea_context *context, const fovea_mha_parameters *parameters,
                                             const fovea_tensor *query, const fovea_tensor *key,
                                             const fovea_tensor *value, const fovea_tensor *out,
                                             const fovea_mha_options *options) {
  return guarded([&] { return multi_head_attention_once(context, parameters, {query, key, value, out}, options); });
}
