// The checks of kernel regression, in its own terms.
#pragma once

#include "ops/attention/kernel_regression.hpp"

namespace fovea {

struct RegressionMatrices {
  fovea_tensor queries, inputs, targets, out;
};

// Reads them; sigma is never 0 afterwards.
[[nodiscard]] Status check_regression_options(const fovea_kernel_regression_options *given,
                                              fovea_kernel_regression_options *options);

// Vectors become matrices of one column. weights: null where not wanted.
[[nodiscard]] Status check_regression(const RegressionTensors &given, const fovea_tensor *weights,
                                      RegressionMatrices *matrices);

}  // namespace fovea
