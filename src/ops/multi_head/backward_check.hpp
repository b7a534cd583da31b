// The checks of multi-head attention's backward pass beside those of the forward one.
#pragma once

#include "ops/multi_head/call.hpp"

namespace fovea {

// Gradients as they were given. Weights and biases are query's, key's and value's, the one that holds these, and out's.
struct MultiHeadGradients {
  TensorArgument out, query, key, value;
  TensorArgument weights[5], biases[5];
  fovea_attention_gradients attention;
};
enum : int { query_part, key_part, value_part, in_part, out_part, part_count };

constexpr const fovea_tensor *fovea_mha_parameters::*weight_members[part_count] = {
    &fovea_mha_parameters::query_weight, &fovea_mha_parameters::key_weight, &fovea_mha_parameters::value_weight,
    &fovea_mha_parameters::in_weight, &fovea_mha_parameters::out_weight};
constexpr const fovea_tensor *fovea_mha_parameters::*bias_members[part_count] = {
    &fovea_mha_parameters::query_bias, &fovea_mha_parameters::key_bias, &fovea_mha_parameters::value_bias,
    &fovea_mha_parameters::in_bias, &fovea_mha_parameters::out_bias};

[[nodiscard]] Status read_mha_gradients(const fovea_mha_gradients *given, MultiHeadGradients *gradients);

// No more than a backward pass takes.
[[nodiscard]] Status check_backward_options(const fovea_mha_options &options);

// The forward call has been checked.
[[nodiscard]] Status check_mha_gradients(const MultiHeadTensors &tensors, const fovea_mha_parameters &parameters,
                                         const MultiHeadCall &call, const MultiHeadGradients &gradients);

// No gradient shares memory with an operand or another gradient. Those of attention have been checked but for their
// data.
[[nodiscard]] Status check_mha_gradient_overlaps(const MultiHeadTensors &tensors, const MultiHeadCall &call,
                                                 const MultiHeadGradients &gradients);

// Whether there is an element to write; else all is checked that needs no values.
[[nodiscard]] bool writes_any(const MultiHeadGradients &gradients);
[[nodiscard]] Status check_without_values(const MultiHeadTensors &tensors, const MultiHeadGradients &gradients,
                                          MultiHeadCall *call);

}  // namespace fovea
