#include "ops/multi_head/backward_check.hpp"

#include <cinttypes>

#include "ops/attention/gradient_operands.hpp"
#include "ops/layer_gradients/check.hpp"
#include "ops/multi_head/operands.hpp"
#include "ops/positions/rotary_check.hpp"

namespace fovea {
namespace {

constexpr struct {
  const char *weight, *parameters_weight, *bias, *parameters_bias;
} part_names[part_count] = {
    {"gradients.query_weight", "parameters.query_weight", "gradients.query_bias", "parameters.query_bias"},
    {"gradients.key_weight", "parameters.key_weight", "gradients.key_bias", "parameters.key_bias"},
    {"gradients.value_weight", "parameters.value_weight", "gradients.value_bias", "parameters.value_bias"},
    {"gradients.in_weight", "parameters.in_weight", "gradients.in_bias", "parameters.in_bias"},
    {"gradients.out_weight", "parameters.out_weight", "gradients.out_bias", "parameters.out_bias"}};

// A gradient of what there is, with its shape.
Status check_of(const fovea_tensor *gradient, const char *name, const fovea_tensor *owner, const char *owner_name,
                bool contiguous_last) {
  if (gradient == nullptr) return FOVEA_OK;
  if (owner == nullptr) return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: %s is NULL", name, owner_name);
  FOVEA_CHECK(check_tensor(gradient, {.name = name,
                                      .min_rank = owner->rank,
                                      .max_rank = owner->rank,
                                      .output = true,
                                      .contiguous_last = contiguous_last,
                                      .narrow = true}));
  for (int axis = 0; axis < owner->rank; ++axis) {
    FOVEA_CHECK(check_size(*gradient, name, axis, owner->shape[axis], owner_name));
  }
  return FOVEA_OK;
}

Status check_grad_out(const fovea_tensor *grad_out, const MultiHeadTensors &tensors, const MultiHeadCall &call) {
  const int rank = tensors.query->rank;
  FOVEA_CHECK(check_tensor(grad_out, {.name = "gradients.out", .min_rank = rank, .max_rank = rank, .narrow = true}));
  if (rank == 3) {
    FOVEA_CHECK(check_size(*grad_out, "gradients.out", 0, call.out.batch, "query's batch size"));
  }
  FOVEA_CHECK(check_size(*grad_out, "gradients.out", rank - 2, call.out.length, "query's positions"));
  return check_size(*grad_out, "gradients.out", rank - 1, call.out.features, "what the weights give");
}

}  // namespace

Status read_mha_gradients(const fovea_mha_gradients *given, MultiHeadGradients *gradients) {
  fovea_mha_gradients read;
  FOVEA_CHECK(read_gradients(given, &read));
  FOVEA_CHECK(expect_given(read.out, "gradients.out", "the gradient of out"));
  gradients->out = read.out;
  gradients->query = read.query;
  gradients->key = read.key;
  gradients->value = read.value;
  const fovea_tensor *weights[part_count] = {read.query_weight, read.key_weight, read.value_weight, read.in_weight,
                                             read.out_weight};
  const fovea_tensor *biases[part_count] = {read.query_bias, read.key_bias, read.value_bias, read.in_bias,
                                            read.out_bias};
  for (int part = 0; part < part_count; ++part) {
    gradients->weights[part] = weights[part];
    gradients->biases[part] = biases[part];
  }
  FOVEA_CHECK(within("gradients.attention", read_options("gradients", read.attention, &gradients->attention)));
  gradients->attention.struct_size = sizeof gradients->attention;
  for (const GradientRow &row : gradient_rows) {
    const bool of_heads = row.operand == out_gradient || row.operand == query_gradient || row.operand == key_gradient ||
                          row.operand == value_gradient;
    if (of_heads && gradients->attention.*row.tensor != nullptr) {
      return fail(FOVEA_BAD_VALUE, "gradients.attention: %s is given, expected NULL: heads are computed here",
                  row.name);
    }
  }
  return FOVEA_OK;
}

Status check_backward_options(const fovea_mha_options &options) {
  if (options.flags != 0) {
    return fail(FOVEA_BAD_OPTION, "options.flags is 0x%" PRIx32 ", expected 0: a backward pass keeps no pages",
                options.flags);
  }
  const NamedTensor pages[] = {{"key_pages", options.key_pages},
                               {"value_pages", options.value_pages},
                               {"key_scales", options.key_scales},
                               {"value_scales", options.value_scales}};
  for (const NamedTensor &tensor : pages) {
    if (tensor.tensor == nullptr) continue;
    return fail(FOVEA_BAD_VALUE, "options.%s is given, expected NULL: pages are for inference", tensor.name);
  }
  if (options.schedule == nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.schedule is given, expected NULL: schedules are for inference");
}

Status check_mha_gradients(const MultiHeadTensors &tensors, const fovea_mha_parameters &parameters,
                           const MultiHeadCall &call, const MultiHeadGradients &gradients) {
  FOVEA_CHECK(check_grad_out(gradients.out, tensors, call));
  FOVEA_CHECK(check_of(gradients.query, "gradients.query", tensors.query, "query", true));
  FOVEA_CHECK(check_of(gradients.key, "gradients.key", tensors.key, "key", true));
  FOVEA_CHECK(check_of(gradients.value, "gradients.value", tensors.value, "value", true));
  for (int part = 0; part < part_count; ++part) {
    const auto &names = part_names[part];
    const TensorArgument weight(parameters.*weight_members[part]), bias(parameters.*bias_members[part]);
    FOVEA_CHECK(check_of(gradients.weights[part], names.weight, weight, names.parameters_weight, true));
    FOVEA_CHECK(check_of(gradients.biases[part], names.bias, bias, names.parameters_bias, false));
  }
  return FOVEA_OK;
}

Status check_mha_gradient_overlaps(const MultiHeadTensors &tensors, const MultiHeadCall &call,
                                   const MultiHeadGradients &gradients) {
  MultiHeadExtras extras;
  extras.add("gradients.out", gradients.out, false);
  extras.add("gradients.query", gradients.query, true);
  extras.add("gradients.key", gradients.key, true);
  extras.add("gradients.value", gradients.value, true);
  for (int part = 0; part < part_count; ++part) {
    extras.add(part_names[part].weight, gradients.weights[part], true);
    extras.add(part_names[part].bias, gradients.biases[part], true);
  }
  TensorArgument of_attention[gradient_operand_count];
  for (const GradientRow &row : gradient_rows) {
    if (gradients.attention.*row.tensor == nullptr) continue;
    of_attention[row.operand] = gradients.attention.*row.tensor;
    FOVEA_CHECK(within("gradients.attention", check_data(*of_attention[row.operand], row.name, false)));
    extras.add(row.name, of_attention[row.operand], row.is_output());
  }
  return check_multi_head_overlaps(tensors, call, extras);
}

bool writes_any(const MultiHeadGradients &gradients) {
  if (wants_any({gradients.query, gradients.key, gradients.value})) return true;
  for (int part = 0; part < part_count; ++part) {
    if (wants_any({gradients.weights[part], gradients.biases[part]})) return true;
  }
  for (const GradientRow &row : gradient_rows) {
    if (row.is_output() && wants_any({gradients.attention.*row.tensor})) return true;
  }
  return false;
}

Status check_without_values(const MultiHeadTensors &tensors, const MultiHeadGradients &gradients, MultiHeadCall *call) {
  AttentionCall &attention = call->plan.call;
  for (const int operand : {log_sum_exp_operand, projected_query_operand, projected_key_operand, out_operand}) {
    attention.present[operand] = false;  // have no memory
  }
  FOVEA_CHECK(within("options.attention", check_operand_data(attention, valid_lens_operand, operand_count - 1)));
  if (call->options.rotary != nullptr) {
    const HeadTensors heads = head_tensors(*call, nullptr);
    for (const fovea_tensor *rows : {&heads.query, &heads.key}) {
      RotaryArguments unused = {};
      FOVEA_CHECK(within("options.rotary", check_rotary_options(&call->rotary, *rows, &unused)));
    }
  }
  return check_mha_gradient_overlaps(tensors, *call, gradients);
}

}  // namespace fovea
