// Backward passes of layer and RMS normalisation.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status layer_norm_backward(const Context *given, const TensorArgument &x,
                                         const fovea_layer_norm_options *options,
                                         const fovea_norm_gradients *gradients);
[[nodiscard]] Status rms_norm_backward(const Context *given, const TensorArgument &x,
                                       const fovea_rms_norm_options *options, const fovea_norm_gradients *gradients);

}  // namespace fovea
