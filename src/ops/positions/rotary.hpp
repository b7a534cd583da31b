// Rotary position embedding.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status rotary(const Context *given, const TensorArgument &x, const TensorArgument &out,
                            const fovea_rotary_options *options);

}  // namespace fovea
