// Gradients of what is not attention, from the formulas of their own. Everything dense and row-major; what reaches the
// results is `grad`.
#pragma once

#include "reference.hpp"

namespace reference {

// With what each gradient's error is judged by: the sum of the magnitudes of its terms.
template <typename Real>
struct Gradient {
  std::vector<Real> value;
  std::vector<Real> magnitude;
};

template <typename Real>
Real activation_derivative(Activation activation, Real x);

// Over the middle one of three axes, from what softmax gave; of the first valid_lens[outer] alone, unless that is
// empty. log: from its logarithm.
template <typename Real>
Gradient<Real> softmax_gradient(const std::vector<float> &out, const std::vector<float> &grad, int64_t outer,
                                int64_t key_len, int64_t inner, bool log, const std::vector<int64_t> &valid_lens);

template <typename Real>
struct NormGradients {
  Gradient<Real> x, weight, bias;
};
// grad_sum: empty, or what reaches x + residual besides.
template <typename Real>
NormGradients<Real> norm_gradients(const LayerNormInputs &inputs, const std::vector<float> &grad,
                                   const std::vector<float> &grad_sum);

template <typename Real>
struct LinearGradients {
  Gradient<Real> x, weight, bias, multiplier;  // weight [K,N]
};
template <typename Real>
LinearGradients<Real> linear_gradients(const LinearInputs &inputs, const std::vector<float> &grad);

template <typename Real>
struct MergeGradients {
  Gradient<Real> outs, lses;
};
// grad_log_sum_exp: empty, or [rows].
template <typename Real>
MergeGradients<Real> merge_gradients(const std::vector<float> &outs, const std::vector<float> &lses, int64_t parts,
                                     int64_t rows, int64_t value_dim, const std::vector<float> &grad,
                                     const std::vector<float> &grad_log_sum_exp);

}  // namespace reference
