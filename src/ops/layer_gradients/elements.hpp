// Backward passes of activations and of softmax.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status activation_backward(const Context *given, int32_t activation, const TensorArgument &x,
                                         const TensorArgument &grad_out, const TensorArgument &grad_x);

[[nodiscard]] Status masked_softmax_backward(const Context *given, const TensorArgument &out,
                                             const TensorArgument &valid_lens, const TensorArgument &grad_out,
                                             const TensorArgument &grad_x);

// axis: from 0, or from -1 for the last one backwards. log: out is the logarithm.
[[nodiscard]] Status softmax_backward(const Context *given, const TensorArgument &out, int32_t axis,
                                      const TensorArgument &grad_out, const TensorArgument &grad_x, bool log);

// Tensors of a gated activation, of one shape, that have been checked and have elements; null where not given or not
// wanted: multiplier, grad_x, grad_multiplier. grad_x may be x or grad_out.
struct ActivationTensors {
  const fovea_tensor &x, &grad_out;
  const fovea_tensor *multiplier, *grad_x, *grad_multiplier;
};
void run_activation_gradients(const Context &context, Activation kind, const ActivationTensors &given);

}  // namespace fovea
