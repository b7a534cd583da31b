// Rotary position embedding.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status rotary(const Context *given, const TensorArgument &x, const TensorArgument &out,
                            const fovea_rotary_options *options);

// The same with its tables in memory on a cache line, or in the context's if they take more than `size` bytes.
[[nodiscard]] Status rotary_in(void *memory, size_t size, const Context &context, const TensorArgument &x,
                               const TensorArgument &out, const fovea_rotary_options *options);

// No tables of rows of `dim` features take more.
size_t most_rotary_memory(const Context &context, int64_t dim);

}  // namespace fovea
