// The checks of attention's backward pass.
#include "ops/gradients/call.hpp"
#include "ops/tensors/lift.hpp"

namespace fovea {
namespace {

// Keys and values must be floats.
Status check_forward(const AttentionCall &call) {
  for (const int operand : {key_operand, value_operand}) {
    const fovea_dtype dtype = call.tensor[operand].dtype;
    if (!is_scaled_type(dtype)) continue;
    return fail(FOVEA_BAD_DTYPE, "%s has dtype %s, expected floats: numbers of %s bits have no gradient",
                operand_name(call, operand), DtypeName(dtype).text, dtype == FOVEA_U8 ? "4" : "8");
  }
  if (!call.present[log_sum_exp_operand]) {
    return fail(FOVEA_NULL_POINTER, "options.log_sum_exp is NULL, expected that of the forward call");
  }
  return FOVEA_OK;
}

TensorRule rule_of(const GradientRow &row, int rank) {
  return {.name = row.name,
          .min_rank = rank,
          .max_rank = rank,
          .output = row.is_output(),
          .contiguous_last = row.contiguous_last,
          .needs_data = false,
          .narrow = row.elements == Elements::floats};
}

// The shape of returned weights, which need not have been asked for.
fovea_tensor weights_like(const AttentionCall &call, const AttentionProblem &scores) {
  fovea_tensor shape = call.tensor[query_operand];
  const bool averaged = scores.outputs.average_weights && shape.rank == 4;
  if (averaged) {
    shape.rank = 3;
    shape.shape[1] = shape.shape[2];
  }
  shape.shape[shape.rank - 1] = scores.sizes.key_len;
  return shape;
}

// score.sigma, which is a number, as a tensor.
fovea_tensor one_width() { return {nullptr, FOVEA_F32, 1, {1}, {1}}; }

Status check_shape(const GradientRow &row, const fovea_tensor &given, const fovea_tensor &expected, const char *as) {
  FOVEA_CHECK(check_tensor(&given, rule_of(row, expected.rank)));
  for (int axis = 0; axis < expected.rank; ++axis) {
    FOVEA_CHECK(check_size(given, row.name, axis, expected.shape[axis], as));
  }
  return FOVEA_OK;
}

Status check_gradient(const AttentionCall &call, const GradientCall &gradients, const AttentionProblem &scores,
                      const GradientRow &row) {
  if (!gradients.present[row.operand]) return FOVEA_OK;
  const fovea_tensor &given = gradients.tensor[row.operand];
  if (row.operand == weights_gradient) {
    return check_shape(row, given, weights_like(call, scores), "that of returned weights");
  }
  if (row.operand == sigmas_gradient && call.score.kind == FOVEA_SCORE_GAUSSIAN && !call.present[sigmas_operand]) {
    return check_shape(row, given, one_width(), "one sigma");
  }
  const char *name = operand_rows[row.of].name;
  if (!call.present[row.of]) return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: %s is NULL", row.name, name);
  return check_shape(row, given, call.tensor[row.of], name);
}

GradientRows rows_of(const GradientCall &gradients, GradientOperand operand) {
  if (!gradients.present[operand]) return {};
  const fovea_tensor &tensor = gradients.tensor[operand];
  return {.strides = head_strides(lift_heads(tensor)), .dtype = static_cast<Dtype>(tensor.dtype), .wanted = true};
}

}  // namespace

Status read_gradient_call(const AttentionArguments &arguments, const fovea_attention_gradients *given,
                          AttentionCall *call, GradientCall *gradients) {
  call->backward = true;
  FOVEA_CHECK(read_score(arguments.score, call));
  FOVEA_CHECK(read_attention_call(arguments, call));
  for (const int operand : {weights_operand, scores_operand}) call->present[operand] = false;
  FOVEA_CHECK(expect_given(given, "gradients", "what is known and what is wanted"));
  fovea_attention_gradients read;
  FOVEA_CHECK(read_options("gradients", given, &read));
  for (const GradientRow &row : gradient_rows) {
    const fovea_tensor *tensor = read.*row.tensor;
    gradients->present[row.operand] = tensor != nullptr;
    if (tensor != nullptr) gradients->tensor[row.operand] = *TensorArgument(tensor);
  }
  return expect_given(read.out, "gradients.out", "the gradient of out");
}

Status check_gradient_call(const AttentionCall &call, const GradientCall &gradients, const AttentionProblem &scores,
                           GradientProblem *problem) {
  FOVEA_CHECK(check_forward(call));
  for (const GradientRow &row : gradient_rows) FOVEA_CHECK(check_gradient(call, gradients, scores, row));
  *problem = {};
  problem->query = rows_of(gradients, query_gradient);
  problem->key = rows_of(gradients, key_gradient);
  problem->wants_vector = gradients.present[score_vector_gradient];
  problem->value = rows_of(gradients, value_gradient);
  problem->wants_slopes = gradients.present[alibi_slopes_gradient];
  problem->wants_sinks = gradients.present[sinks_gradient];
  problem->wants_widths = gradients.present[sigmas_gradient];
  if (gradients.present[log_sum_exp_gradient]) {
    problem->grad_log_sum_exp.strides = head_strides(lift_rows(gradients.tensor[log_sum_exp_gradient]));
  }
  if (gradients.present[weights_gradient]) {
    const fovea_tensor lifted = lift_heads(gradients.tensor[weights_gradient]);
    problem->grad_weights_strides = head_strides(lifted);
    problem->grad_weights_dtype = static_cast<Dtype>(lifted.dtype);
  }
  return FOVEA_OK;
}

bool wants_gradients(const GradientCall &gradients) {
  for (const GradientRow &row : gradient_rows) {
    if (row.is_output() && gradients.present[row.operand] && element_count(gradients.tensor[row.operand]) > 0)
      return true;
  }
  return false;
}

Status check_gradient_data(const AttentionCall &call, const GradientCall &gradients, const AttentionProblem &scores) {
  FOVEA_CHECK(wants_gradients(gradients) ? check_attention_data(call, scores)
                                         : check_operand_data(call, 0, operand_count - 1));
  NamedTensor inputs[static_cast<int>(operand_count) + static_cast<int>(gradient_operand_count)],
      outputs[gradient_operand_count];
  size_t input_count = 0, output_count = 0;
  for (const OperandRow &row : operand_rows) {
    if (call.present[row.operand]) inputs[input_count++] = {operand_name(call, row.operand), &call.tensor[row.operand]};
  }
  for (const GradientRow &row : gradient_rows) {
    if (!gradients.present[row.operand]) continue;
    const fovea_tensor &tensor = gradients.tensor[row.operand];
    const char *name = call.planned ? row.buffer_name : row.name;
    FOVEA_CHECK(check_data(tensor, name, call.planned));
    (row.is_output() ? outputs[output_count++] : inputs[input_count++]) = {name, &tensor};
  }
  return check_overlaps(std::span(outputs, output_count), std::span(inputs, input_count));
}

}  // namespace fovea
