// Numbers as numbers of 8 or 4 bits with a scale for each group of features, and back.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status quantize(const Context *context, const TensorArgument &x, const TensorArgument &out,
                              const TensorArgument &scales);
[[nodiscard]] Status dequantize(const Context *context, const TensorArgument &q, const TensorArgument &scales,
                                const TensorArgument &out);

}  // namespace fovea
