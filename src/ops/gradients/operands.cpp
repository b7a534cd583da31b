#include "ops/gradients/operands.hpp"

namespace fovea {
namespace {

using Gradients = fovea_attention_gradients;
using Buffers = fovea_gradient_buffers;

constexpr Elements f32 = Elements::f32, floats = Elements::floats;
constexpr bool contiguous = true, any_strides = false;

}  // namespace

// clang-format off: one operand, one row
constexpr GradientRow gradient_rows[gradient_operand_count] = {
    {out_gradient, out_operand, "gradients.out", &Gradients::out, &Buffers::out, floats, contiguous},
    {log_sum_exp_gradient, log_sum_exp_operand, "gradients.log_sum_exp", &Gradients::log_sum_exp, &Buffers::log_sum_exp, f32,
     any_strides},
    {weights_gradient, weights_operand, "gradients.weights", &Gradients::weights, &Buffers::weights, floats, contiguous},
    {query_gradient, query_operand, "gradients.query", &Gradients::query, &Buffers::query, floats, contiguous},
    {key_gradient, key_operand, "gradients.key", &Gradients::key, &Buffers::key, floats, contiguous},
    {value_gradient, value_operand, "gradients.value", &Gradients::value, &Buffers::value, floats, contiguous},
    {bias_gradient, bias_operand, "gradients.bias", &Gradients::bias, &Buffers::bias, floats, contiguous},
    {alibi_slopes_gradient, alibi_slopes_operand, "gradients.alibi_slopes", &Gradients::alibi_slopes,
     &Buffers::alibi_slopes, f32, any_strides},
    {sinks_gradient, sinks_operand, "gradients.sinks", &Gradients::sinks, &Buffers::sinks, f32, any_strides},
    {query_weight_gradient, query_weight_operand, "gradients.query_weight", &Gradients::query_weight, &Buffers::query_weight, floats, any_strides},
    {key_weight_gradient, key_weight_operand, "gradients.key_weight", &Gradients::key_weight, &Buffers::key_weight, floats, any_strides},
    {weight_gradient, weight_operand, "gradients.weight", &Gradients::weight, &Buffers::weight, floats, any_strides},
    {score_bias_gradient, score_bias_operand, "gradients.score_bias", &Gradients::score_bias, &Buffers::score_bias, floats, any_strides},
    {score_vector_gradient, score_vector_operand, "gradients.score_vector", &Gradients::score_vector, &Buffers::score_vector, floats, any_strides},
    {sigmas_gradient, sigmas_operand, "gradients.sigmas", &Gradients::sigmas, &Buffers::sigmas, f32, any_strides},
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

void *GradientRow::data_of(const Buffers &buffers) const {
  if (const auto *output = std::get_if<void * Buffers::*>(&buffer)) return buffers.**output;
  return const_cast<void *>(buffers.**std::get_if<const void * Buffers::*>(&buffer));
}

}  // namespace fovea
