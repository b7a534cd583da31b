// The C functions of attention, with any score function, and of its plans.
#include "ops/attention/attention.hpp"

#include "guard.hpp"
#include "ops/attention/kernel_regression.hpp"

using namespace fovea;

fovea_status fovea_sdpa(const fovea_context *context, const fovea_tensor *query, const fovea_tensor *key,
                        const fovea_tensor *value, const fovea_tensor *out, const fovea_attention_options *options) {
  return fovea_attention(context, nullptr, query, key, value, out, options);
}

fovea_status fovea_sdpa_plan_create(const fovea_context *context, const fovea_tensor *query, const fovea_tensor *key,
                                    const fovea_tensor *value, const fovea_tensor *out,
                                    const fovea_attention_options *options, fovea_plan **plan) {
  return fovea_attention_plan_create(context, nullptr, query, key, value, out, options, plan);
}

fovea_status fovea_attention(const fovea_context *context, const fovea_score *score, const fovea_tensor *query,
                             const fovea_tensor *key, const fovea_tensor *value, const fovea_tensor *out,
                             const fovea_attention_options *options) {
  return guarded([&] { return attend(context, {score, query, key, nullptr, value, out, options}); });
}

fovea_status fovea_attention_plan_create(const fovea_context *context, const fovea_score *score,
                                         const fovea_tensor *query, const fovea_tensor *key, const fovea_tensor *value,
                                         const fovea_tensor *out, const fovea_attention_options *options,
                                         fovea_plan **plan) {
  return guarded([&] { return make_attention_plan(context, {score, query, key, nullptr, value, out, options}, plan); });
}

fovea_status fovea_attention_run(const fovea_plan *plan, const fovea_attention_buffers *buffers, void *workspace,
                                 size_t workspace_size) {
  return guarded([&] { return run_attention_plan(plan, buffers, workspace, workspace_size); });
}

void fovea_plan_destroy(fovea_plan *plan) { delete plan; }

size_t fovea_plan_workspace_size(const fovea_plan *plan) { return plan == nullptr ? 0 : plan->workspace_size(); }

size_t fovea_plan_describe(const fovea_plan *plan, char *text, size_t size) {
  return plan == nullptr ? 0 : plan->describe(text, size);
}

fovea_status fovea_kernel_regression(const fovea_context *context, const fovea_tensor *queries,
                                     const fovea_tensor *inputs, const fovea_tensor *targets, const fovea_tensor *out,
                                     const fovea_kernel_regression_options *options) {
  return guarded([&] { return kernel_regression(context, {queries, inputs, targets, out}, options); });
}
