// Backward pass of a linear layer.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status linear_backward(const Context *given, const TensorArgument &x, const TensorArgument &weight,
                                     int32_t layout, const fovea_linear_options *options,
                                     const fovea_linear_gradients *gradients);

}  // namespace fovea
