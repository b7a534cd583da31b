// The C functions of gradients of layers.
#include "guard.hpp"
#include "ops/layer_gradients/elements.hpp"
#include "ops/layer_gradients/linear.hpp"
#include "ops/layer_gradients/merge.hpp"
#include "ops/layer_gradients/norm.hpp"
#include "ops/multi_head/backward.hpp"

using namespace fovea;

fovea_status fovea_activation_backward(const fovea_context *context, int32_t activation, const fovea_tensor *x,
                                       const fovea_tensor *grad_out, const fovea_tensor *grad_x) {
  return guarded([&] { return activation_backward(context, activation, x, grad_out, grad_x); });
}

fovea_status fovea_masked_softmax_backward(const fovea_context *context, const fovea_tensor *out,
                                           const fovea_tensor *valid_lens, const fovea_tensor *grad_out,
                                           const fovea_tensor *grad_x) {
  return guarded([&] { return masked_softmax_backward(context, out, valid_lens, grad_out, grad_x); });
}

fovea_status fovea_softmax_backward(const fovea_context *context, const fovea_tensor *out, int32_t axis,
                                    const fovea_tensor *grad_out, const fovea_tensor *grad_x) {
  return guarded([&] { return softmax_backward(context, out, axis, grad_out, grad_x, false); });
}

fovea_status fovea_log_softmax_backward(const fovea_context *context, const fovea_tensor *out, int32_t axis,
                                        const fovea_tensor *grad_out, const fovea_tensor *grad_x) {
  return guarded([&] { return softmax_backward(context, out, axis, grad_out, grad_x, true); });
}

fovea_status fovea_layer_norm_backward(const fovea_context *context, const fovea_tensor *x,
                                       const fovea_layer_norm_options *options, const fovea_norm_gradients *gradients) {
  return guarded([&] { return layer_norm_backward(context, x, options, gradients); });
}

fovea_status fovea_rms_norm_backward(const fovea_context *context, const fovea_tensor *x,
                                     const fovea_rms_norm_options *options, const fovea_norm_gradients *gradients) {
  return guarded([&] { return rms_norm_backward(context, x, options, gradients); });
}

fovea_status fovea_linear_backward(const fovea_context *context, const fovea_tensor *x, const fovea_tensor *weight,
                                   int32_t layout, const fovea_linear_options *options,
                                   const fovea_linear_gradients *gradients) {
  return guarded([&] { return linear_backward(context, x, weight, layout, options, gradients); });
}

fovea_status fovea_merge_states_backward(const fovea_context *context, const fovea_tensor *outs,
                                         const fovea_tensor *lses, const fovea_merge_gradients *gradients) {
  return guarded([&] { return merge_states_backward(context, outs, lses, gradients); });
}

fovea_status fovea_multi_head_attention_backward(const fovea_context *context, const fovea_mha_parameters *parameters,
                                                 const fovea_tensor *query, const fovea_tensor *key,
                                                 const fovea_tensor *value, const fovea_mha_options *options,
                                                 const fovea_mha_gradients *gradients) {
  return guarded([&] {
    return multi_head_attention_backward(context, parameters, {query, key, value, nullptr}, options, gradients);
  });
}
