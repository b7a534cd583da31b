// The checks of layer normalisation and of masked softmax.
#pragma once

#include "ops/tensors/check.hpp"

namespace fovea {

// Null where not given: all but x and out.
struct NormOperands {
  const fovea_tensor *x, *weight, *bias, *residual, *out;
};

[[nodiscard]] Status check_norm_options(const fovea_layer_norm_options &options, double *epsilon);
[[nodiscard]] Status check_norm_tensors(const NormOperands &given);

[[nodiscard]] Status check_softmax_options(const fovea_masked_softmax_options *given, EmptyRows *empty_rows);
[[nodiscard]] Status check_softmax_tensors(const fovea_tensor *x, const fovea_tensor *valid_lens,
                                           const fovea_tensor *out);

}  // namespace fovea
