// Softmax over any axis, and its logarithm.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

// axis: from 0, or from -1 for the last one backwards.
[[nodiscard]] Status softmax(const Context *given, const TensorArgument &x, int32_t axis, const TensorArgument &out,
                             bool log);

}  // namespace fovea
