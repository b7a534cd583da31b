// Nadaraya-Watson regression: attention with the Gaussian score function, on plain matrices.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

struct RegressionTensors {
  TensorArgument queries, inputs, targets, out;
};

[[nodiscard]] Status kernel_regression(const fovea_context *context, const RegressionTensors &tensors,
                                       const fovea_kernel_regression_options *given);

}  // namespace fovea
