// Backward pass of merging partial attention.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status merge_states_backward(const Context *given, const TensorArgument &outs, const TensorArgument &lses,
                                           const fovea_merge_gradients *gradients);

}  // namespace fovea
