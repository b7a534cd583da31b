// Backward pass of multi-head attention.
#pragma once

#include "ops/multi_head/multi_head.hpp"

namespace fovea {

// tensors.out is not looked at.
[[nodiscard]] Status multi_head_attention_backward(const Context *given, const fovea_mha_parameters *parameters,
                                                   const MultiHeadTensors &tensors, const fovea_mha_options *options,
                                                   const fovea_mha_gradients *gradients);

}  // namespace fovea
