// The checks of layer and RMS normalisation, of softmax and of functions of elements.
#pragma once

#include "kernels/rowwise/layer_norm_problem.hpp"
#include "ops/tensors/check.hpp"

namespace fovea {

// Null where not given: all but x and out.
struct NormOperands {
  const fovea_tensor *x, *weight, *bias, *residual, *out, *sum, *mean, *inverse_deviation;
};

struct NormSettings {
  NormKind kind;
  double epsilon;
  float weight_raise;  // is added to every weight
};

[[nodiscard]] Status check_norm_options(const fovea_layer_norm_options &options, NormSettings *settings);
[[nodiscard]] Status check_norm_options(const fovea_rms_norm_options &options, NormSettings *settings);
[[nodiscard]] Status check_norm_inputs(const NormOperands &given);  // x, residual, weight and bias alone
[[nodiscard]] Status check_norm_tensors(const NormOperands &given);

[[nodiscard]] Status check_softmax_options(const fovea_masked_softmax_options *given, EmptyRows *empty_rows);
[[nodiscard]] Status check_softmax_tensors(const fovea_tensor *x, const fovea_tensor *valid_lens,
                                           const fovea_tensor *out);
[[nodiscard]] Status check_softmax_over_axis(const fovea_tensor *x, int32_t axis, const fovea_tensor *out);

// x and out of a function of elements.
[[nodiscard]] Status check_elements(const fovea_tensor *x, const fovea_tensor *out);
[[nodiscard]] Status check_activation(int32_t kind);

// Numbers as numbers of 8 or 4 bits with scales, and back.
[[nodiscard]] Status check_quantize(const fovea_tensor *x, const fovea_tensor *out, const fovea_tensor *scales);
[[nodiscard]] Status check_dequantize(const fovea_tensor *q, const fovea_tensor *scales, const fovea_tensor *out);

}  // namespace fovea
