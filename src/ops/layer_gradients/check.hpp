// The checks of backward passes of layers.
#pragma once

#include "ops/rowwise/check.hpp"

namespace fovea {

// What is known and what is wanted.
template <class Gradients>
[[nodiscard]] Status read_gradients(const Gradients *given, Gradients *gradients) {
  FOVEA_CHECK(expect_given(given, "gradients", "what is known and what is wanted"));
  return read_options("gradients", given, gradients);
}

// Whether one of these has an element to write: else no number is looked at, and no memory is needed.
[[nodiscard]] bool wants_any(std::initializer_list<const fovea_tensor *> gradients);

// Sums over rows that do not fit the address space.
[[nodiscard]] Status too_large_for_sums(const char *name);

// Null where not given: all but x and grad_out.
struct NormGradientOperands {
  const fovea_tensor *x, *weight, *bias, *residual, *grad_out, *grad_sum;
  const fovea_tensor *grad_x, *grad_weight, *grad_bias;
};
[[nodiscard]] Status check_norm_gradients(const NormGradientOperands &given, NormKind kind);

// What the gradient of a function of elements takes: x, or what the function gave, by that name.
struct ElementGradientOperands {
  const char *x_name, *x_size;  // how messages call x, and its size
  const fovea_tensor *x, *grad_out, *grad_x;
};
[[nodiscard]] Status check_element_gradients(const ElementGradientOperands &given);
[[nodiscard]] Status check_softmax_gradients(const ElementGradientOperands &given, const fovea_tensor *valid_lens);
[[nodiscard]] Status check_softmax_gradients_over(const ElementGradientOperands &given, int32_t axis);

// Null where not given: all but outs, lses and grad_out.
struct MergeGradientOperands {
  const fovea_tensor *outs, *lses, *grad_out, *grad_log_sum_exp, *grad_outs, *grad_lses;
};
[[nodiscard]] Status check_merge_gradients(const MergeGradientOperands &given);

// Null where not given: all but x, weight and grad_out.
struct LinearGradientOperands {
  const fovea_tensor *x, *weight, *bias, *multiplier, *grad_out;
  const fovea_tensor *grad_x, *grad_weight, *grad_bias, *grad_multiplier;
};
[[nodiscard]] Status check_linear_gradients(const LinearGradientOperands &given, int32_t layout,
                                            const fovea_linear_options &options);

}  // namespace fovea
