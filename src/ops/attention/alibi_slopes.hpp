// The slopes of ALiBi.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status alibi_slopes(const TensorArgument &out);

}  // namespace fovea
