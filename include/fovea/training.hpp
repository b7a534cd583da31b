// Gradients of attention: part of fovea.hpp, which includes this and says how the C++ interface differs from the C one;
// training.h is the manual.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef FOVEA_TRAINING_HPP
#define FOVEA_TRAINING_HPP

#include <fovea/fovea.hpp>

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

}  // namespace face
}  // namespace fovea

#endif  // FOVEA_TRAINING_HPP
