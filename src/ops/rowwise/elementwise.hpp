// out = e^x, out = tanh x and out = activation(x), element by element.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status exp_elements(const Context *context, const TensorArgument &x, const TensorArgument &out);
[[nodiscard]] Status tanh_elements(const Context *context, const TensorArgument &x, const TensorArgument &out);
// kind: FOVEA_ACTIVATION_*
[[nodiscard]] Status activate_elements(const Context *context, int32_t kind, const TensorArgument &x,
                                       const TensorArgument &out);

}  // namespace fovea
