// Gradients: part of fovea.hpp, which includes this and says how the C++ interface differs from the C one;
// training.h is the manual.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef FOVEA_TRAINING_HPP
#define FOVEA_TRAINING_HPP

#include <fovea/layers.hpp>

namespace fovea {
inline namespace face {

// {.out = grad_out, .query = grad_query, .key = grad_key}
struct AttentionGradients {
  Input out = {}, log_sum_exp = {}, weights = {};  // what reaches the forward call's results
  Output query = {}, key = {}, value = {};
  Output bias = {}, alibi_slopes = {}, sinks = {};
  Output query_weight = {}, key_weight = {}, weight = {}, score_bias = {}, score_vector = {}, sigmas = {};

  // For the C functions. Points into this object.
  fovea_attention_gradients c_gradients() const noexcept {
    auto c = detail::sized<fovea_attention_gradients>();
    c.out = out.get();
    c.log_sum_exp = log_sum_exp.get();
    c.weights = weights.get();
    c.query = query.get();
    c.key = key.get();
    c.value = value.get();
    c.bias = bias.get();
    c.alibi_slopes = alibi_slopes.get();
    c.sinks = sinks.get();
    c.query_weight = query_weight.get();
    c.key_weight = key_weight.get();
    c.weight = weight.get();
    c.score_bias = score_bias.get();
    c.score_vector = score_vector.get();
    c.sigmas = sigmas.get();
    return c;
  }
};

// out and options.log_sum_exp are what the forward call gave.
inline void attention_backward(const Score &score, const Input &query, const Input &key, const Input &value,
                               const Input &out, const AttentionOptions &options, const AttentionGradients &gradients,
                               const Context &context = {}) {
  const fovea_score s = detail::c_score(score);
  const fovea_attention_options c = options.c_options();
  const fovea_attention_gradients g = gradients.c_gradients();
  check(fovea_attention_backward(context.get(), &s, query.get(), key.get(), value.get(), out.get(), &c, &g));
}

inline Plan plan_attention_backward(const Score &score, const Input &query, const Input &key, const Input &value,
                                    const Input &out, const AttentionOptions &options,
                                    const AttentionGradients &gradients, const Context &context = {}) {
  const fovea_score s = detail::c_score(score);
  const fovea_attention_options c = options.c_options();
  const fovea_attention_gradients g = gradients.c_gradients();
  fovea_plan *plan = nullptr;
  check(fovea_attention_backward_plan_create(context.get(), &s, query.get(), key.get(), value.get(), out.get(), &c, &g,
                                             &plan));
  return Plan(plan);
}

// ---- gradients of everything else -----------------------------------------------------------------------------------

inline void activation_backward(Activation kind, const Input &x, const Input &grad_out, const Output &grad_x,
                                const Context &context = {}) {
  check(
      fovea_activation_backward(context.get(), static_cast<std::int32_t>(kind), x.get(), grad_out.get(), grad_x.get()));
}

// out: what softmax gave.
inline void masked_softmax_backward(const Input &out, const Integers &valid_lens, const Input &grad_out,
                                    const Output &grad_x, const Context &context = {}) {
  check(fovea_masked_softmax_backward(context.get(), out.get(), detail::get(valid_lens), grad_out.get(), grad_x.get()));
}
inline void softmax_backward(const Input &out, std::int32_t axis, const Input &grad_out, const Output &grad_x,
                             const Context &context = {}) {
  check(fovea_softmax_backward(context.get(), out.get(), axis, grad_out.get(), grad_x.get()));
}
inline void log_softmax_backward(const Input &out, std::int32_t axis, const Input &grad_out, const Output &grad_x,
                                 const Context &context = {}) {
  check(fovea_log_softmax_backward(context.get(), out.get(), axis, grad_out.get(), grad_x.get()));
}

// {.out = grad_out, .x = grad_x, .weight = grad_weight}
struct NormGradients {
  Input out = {}, sum = {};  // what reaches the forward call's results
  Output x = {}, weight = {}, bias = {};

  fovea_norm_gradients c_gradients() const noexcept {
    auto c = detail::sized<fovea_norm_gradients>();
    c.out = out.get();
    c.sum = sum.get();
    c.x = x.get();
    c.weight = weight.get();
    c.bias = bias.get();
    return c;
  }
};

inline void layer_norm_backward(const Input &x, const LayerNormOptions &options, const NormGradients &gradients,
                                const Context &context = {}) {
  const fovea_layer_norm_options c = options.c_options();
  const fovea_norm_gradients g = gradients.c_gradients();
  check(fovea_layer_norm_backward(context.get(), x.get(), &c, &g));
}
inline void rms_norm_backward(const Input &x, const RmsNormOptions &options, const NormGradients &gradients,
                              const Context &context = {}) {
  const fovea_rms_norm_options c = options.c_options();
  const fovea_norm_gradients g = gradients.c_gradients();
  check(fovea_rms_norm_backward(context.get(), x.get(), &c, &g));
}

struct LinearGradients {
  Input out = {};  // what reaches the forward call's out
  Output x = {}, weight = {}, bias = {}, multiplier = {};

  fovea_linear_gradients c_gradients() const noexcept {
    auto c = detail::sized<fovea_linear_gradients>();
    c.out = out.get();
    c.x = x.get();
    c.weight = weight.get();
    c.bias = bias.get();
    c.multiplier = multiplier.get();
    return c;
  }
};

// weight: as the model has it, not packed.
inline void linear_backward(const Input &x, const Input &weight, WeightLayout layout, const LinearOptions &options,
                            const LinearGradients &gradients, const Context &context = {}) {
  const fovea_linear_options c = options.c_options();
  const fovea_linear_gradients g = gradients.c_gradients();
  check(fovea_linear_backward(context.get(), x.get(), weight.get(), static_cast<std::int32_t>(layout), &c, &g));
}

struct MergeGradients {
  Input out = {}, log_sum_exp = {};  // what reaches the forward call's results
  Output outs = {}, lses = {};
};

inline void merge_states_backward(const Input &outs, const Input &lses, const MergeGradients &gradients,
                                  const Context &context = {}) {
  auto g = detail::sized<fovea_merge_gradients>();
  g.out = gradients.out.get();
  g.log_sum_exp = gradients.log_sum_exp.get();
  g.outs = gradients.outs.get();
  g.lses = gradients.lses.get();
  check(fovea_merge_states_backward(context.get(), outs.get(), lses.get(), &g));
}

struct MultiHeadGradients {
  Input out = {};  // what reaches the forward call's out
  Output query = {}, key = {}, value = {};
  Output query_weight = {}, key_weight = {}, value_weight = {}, in_weight = {}, out_weight = {};
  Output query_bias = {}, key_bias = {}, value_bias = {}, in_bias = {}, out_bias = {};
  AttentionGradients attention = {};  // of what its options and the score bring

  // For the C functions. of_attention must live as long.
  fovea_mha_gradients c_gradients(const fovea_attention_gradients &of_attention) const noexcept {
    auto c = detail::sized<fovea_mha_gradients>();
    c.out = out.get();
    c.query = query.get();
    c.key = key.get();
    c.value = value.get();
    c.query_weight = query_weight.get();
    c.key_weight = key_weight.get();
    c.value_weight = value_weight.get();
    c.in_weight = in_weight.get();
    c.out_weight = out_weight.get();
    c.query_bias = query_bias.get();
    c.key_bias = key_bias.get();
    c.value_bias = value_bias.get();
    c.in_bias = in_bias.get();
    c.out_bias = out_bias.get();
    c.attention = &of_attention;
    return c;
  }
};

// key and value may be {}, as in multi_head_attention.
inline void multi_head_attention_backward(const MultiHeadParameters &parameters, const Input &query, const Input &key,
                                          const Input &value, const MultiHeadOptions &options,
                                          const MultiHeadGradients &gradients, const Context &context = {}) {
  const fovea_mha_parameters p = parameters.c_parameters();
  const fovea_attention_gradients of_attention = gradients.attention.c_gradients();
  const fovea_mha_gradients g = gradients.c_gradients(of_attention);
  detail::with_c_options(options, [&](const fovea_mha_options &c) {
    check(fovea_multi_head_attention_backward(context.get(), &p, query.get(), key.get(), value.get(), &c, &g));
  });
}

}  // namespace face
}  // namespace fovea

#endif  // FOVEA_TRAINING_HPP
