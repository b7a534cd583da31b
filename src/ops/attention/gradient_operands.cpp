#include "ops/attention/gradient_operands.hpp"

namespace fovea {
namespace {

using Gradients = fovea_attention_gradients;
using Buffers = fovea_attention_buffers;

constexpr Elements f32 = Elements::f32, floats = Elements::floats;
constexpr bool contiguous = true, any_strides = false;

}  // namespace

// clang-format off: one operand, one row
constexpr GradientRow gradient_rows[gradient_operand_count] = {
    {out_gradient, out_operand, "gradients.out", "buffers.grad_out", &Gradients::out, &Buffers::grad_out, floats,
     contiguous},
    {log_sum_exp_gradient, log_sum_exp_operand, "gradients.log_sum_exp", "buffers.grad_log_sum_exp",
     &Gradients::log_sum_exp, &Buffers::grad_log_sum_exp, f32, any_strides},
    {weights_gradient, weights_operand, "gradients.weights", "buffers.grad_weights", &Gradients::weights,
     &Buffers::grad_weights, floats, contiguous},
    {query_gradient, query_operand, "gradients.query", "buffers.grad_query", &Gradients::query, &Buffers::grad_query,
     floats, contiguous},
    {key_gradient, key_operand, "gradients.key", "buffers.grad_key", &Gradients::key, &Buffers::grad_key, floats,
     contiguous},
    {value_gradient, value_operand, "gradients.value", "buffers.grad_value", &Gradients::value, &Buffers::grad_value,
     floats, contiguous},
    {bias_gradient, bias_operand, "gradients.bias", "buffers.grad_bias", &Gradients::bias, &Buffers::grad_bias, floats,
     contiguous},
    {alibi_slopes_gradient, alibi_slopes_operand, "gradients.alibi_slopes", "buffers.grad_alibi_slopes",
     &Gradients::alibi_slopes, &Buffers::grad_alibi_slopes, f32, any_strides},
    {sinks_gradient, sinks_operand, "gradients.sinks", "buffers.grad_sinks", &Gradients::sinks, &Buffers::grad_sinks,
     f32, any_strides},
    {query_weight_gradient, query_weight_operand, "gradients.query_weight", "buffers.grad_query_weight",
     &Gradients::query_weight, &Buffers::grad_query_weight, floats, any_strides},
    {key_weight_gradient, key_weight_operand, "gradients.key_weight", "buffers.grad_key_weight", &Gradients::key_weight,
     &Buffers::grad_key_weight, floats, any_strides},
    {weight_gradient, weight_operand, "gradients.weight", "buffers.grad_weight", &Gradients::weight,
     &Buffers::grad_weight, floats, any_strides},
    {score_bias_gradient, score_bias_operand, "gradients.score_bias", "buffers.grad_score_bias", &Gradients::score_bias,
     &Buffers::grad_score_bias, floats, any_strides},
    {score_vector_gradient, score_vector_operand, "gradients.score_vector", "buffers.grad_score_vector",
     &Gradients::score_vector, &Buffers::grad_score_vector, floats, any_strides},
    {sigmas_gradient, sigmas_operand, "gradients.sigmas", "buffers.grad_sigmas", &Gradients::sigmas,
     &Buffers::grad_sigmas, f32, any_strides},
};
// clang-format on

static_assert(
    [] {
      for (int operand = 0; operand < gradient_operand_count; ++operand) {
        if (gradient_rows[operand].operand != operand) return false;
      }
      return true;
    }(),
    "a row for each operand, in their order");

}  // namespace fovea
