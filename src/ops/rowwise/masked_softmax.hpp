// Softmax over the last axis, of the first valid_lens keys of each row.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status masked_softmax(const Context *given, const TensorArgument &x, const TensorArgument &valid_lens,
                                    const TensorArgument &out, const fovea_masked_softmax_options *options);

// Softmax over all keys, or its logarithm. The tensors have been checked and have elements.
void softmax_last_axis(const Context &context, const fovea_tensor &x, const fovea_tensor &out, bool log);

}  // namespace fovea
