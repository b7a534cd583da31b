// The sinusoidal encoding of positions, alone or added to a tensor.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status positional_encoding(const Context *given, const TensorArgument &out,
                                         const fovea_positional_encoding_options *options);

[[nodiscard]] Status add_positional_encoding(const Context *given, const TensorArgument &x, const TensorArgument &out,
                                             const fovea_positional_encoding_options *options);

}  // namespace fovea
