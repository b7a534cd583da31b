// Layer and RMS normalisation over the last axis, of x or of x + residual.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status layer_norm(const Context *given, const TensorArgument &x, const TensorArgument &out,
                                const fovea_layer_norm_options *options);
[[nodiscard]] Status rms_norm(const Context *given, const TensorArgument &x, const TensorArgument &out,
                              const fovea_rms_norm_options *options);

}  // namespace fovea
