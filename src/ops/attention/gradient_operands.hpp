// The operands that attention's backward pass has beside those of the forward call (operands.hpp): gradients of
// what that gave, which are read, and of what it took, which are written. One table, as there.
#pragma once

#include "ops/attention/operands.hpp"

namespace fovea {

enum GradientOperand : int {
  out_gradient,
  log_sum_exp_gradient,
  weights_gradient,
  query_gradient,
  key_gradient,
  value_gradient,
  bias_gradient,
  alibi_slopes_gradient,
  sinks_gradient,
  query_weight_gradient,
  key_weight_gradient,
  weight_gradient,
  score_bias_gradient,
  score_vector_gradient,
  sigmas_gradient,
  gradient_operand_count
};

using GradientSource = const fovea_tensor *fovea_attention_gradients::*;

struct GradientRow {
  GradientOperand operand;
  Operand of;               // the tensor whose layout it has
  const char *name;         // in messages
  const char *buffer_name;  // in those of a plan's run
  GradientSource tensor;
  BufferSource buffer;
  Elements elements;
  bool contiguous_last;

  bool is_output() const { return std::holds_alternative<void * fovea_attention_buffers::*>(buffer); }
};

extern const GradientRow gradient_rows[gradient_operand_count];

// The gradients of a call as they were given, with their own copies of the descriptors.
struct GradientCall {
  fovea_tensor tensor[gradient_operand_count];
  bool present[gradient_operand_count];
};

}  // namespace fovea
