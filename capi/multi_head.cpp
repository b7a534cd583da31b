// The C functions of multi-head attention.
#include "ops/multi_head/multi_head.hpp"

#include "guard.hpp"
#include "ops/multi_head/planned.hpp"

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

fovea_status fovea_mha_plan_create(const fovea_context *context, const fovea_mha_weights *weights,
                                   const fovea_tensor *query, const fovea_tensor *key, const fovea_tensor *value,
                                   const fovea_tensor *out, const fovea_mha_options *options, fovea_mha_plan **plan) {
  return guarded([&] { return make_mha_plan(context, weights, {query, key, value, out}, options, plan); });
}

void fovea_mha_plan_destroy(fovea_mha_plan *plan) { delete plan; }

size_t fovea_mha_plan_workspace_size(const fovea_mha_plan *plan) {
  return plan == nullptr ? 0 : mha_workspace_size(*plan);
}

fovea_status fovea_mha_run(const fovea_mha_plan *plan, const fovea_mha_buffers *buffers, void *workspace,
                           size_t workspace_size) {
  return guarded([&] { return run_mha_plan(plan, buffers, workspace, workspace_size); });
}

fovea_status fovea_multi_head_attention_once(const fovea_context *context, const fovea_mha_parameters *parameters,
                                             const fovea_tensor *query, const fovea_tensor *key,
                                             const fovea_tensor *value, const fovea_tensor *out,
                                             const fovea_mha_options *options) {
  return guarded([&] { return multi_head_attention_once(context, parameters, {query, key, value, out}, options); });
}
