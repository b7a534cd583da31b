// Attention over parts of the keys, merged into attention over all of them.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status merge_states(const Context *given, const TensorArgument &outs, const TensorArgument &lses,
                                  const TensorArgument &out, const TensorArgument &log_sum_exp);

}  // namespace fovea
