// The gradients of attention, from the formulas: dense, a pair of a query and a key at a time.
#pragma once

#include <type_traits>

#include "reference.hpp"

namespace reference {

// Gradients of what the forward call gave.
struct OutputGradients {
  std::vector<float> out;                         // [B,H,Q,Dv]
  std::optional<std::vector<float>> log_sum_exp;  // [B,H,Q]
  std::optional<std::vector<float>> weights;      // [B,H,Q,K], or [B,Q,K] of averages
  bool averaged = false;
};

// One gradient: its elements, and in double for each the sum of the magnitudes of what was added up.
template <typename Real>
struct Gradient {
  std::vector<Real> values;
  std::vector<double> magnitudes;

  void clear(int64_t count) {
    values.assign(count, 0);
    magnitudes.assign(count, 0);
  }
  void add(int64_t at, Real term, double magnitude) {
    values[at] += term;
    if constexpr (std::is_same_v<Real, double>) magnitudes[at] += magnitude;
  }
};

template <typename Real>
struct AttentionGradients {
  Gradient<Real> query, key, value;            // as the tensors
  Gradient<Real> bias;                         // [B,H,Q,K]
  Gradient<Real> alibi_slopes, sinks, sigmas;  // [H]
  Gradient<Real> query_weight, key_weight, weight, score_bias, score_vector;
  Real largest_score = 0;  // the forward call's
};

template <typename Real>
AttentionGradients<Real> attention_gradients(const AttentionInputs &inputs, const OutputGradients &gradients);

}  // namespace reference
