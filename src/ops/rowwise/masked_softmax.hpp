// Softmax over the last axis, of the first valid_lens keys of each row.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status masked_softmax(const Context *given, const TensorArgument &x, const TensorArgument &valid_lens,
                                    const TensorArgument &out, const fovea_masked_softmax_options *options);

}  // namespace fovea
