#include "ops/multi_head/operands.hpp"

namespace fovea {
namespace {

using Tensors = MultiHeadTensors;
using Parameters = fovea_mha_parameters;
using Rotary = fovea_rotary_options;
using Attention = fovea_attention_options;
using Options = fovea_mha_options;

constexpr bool input = false, output = true;

// In the order in which their overlaps are told. clang-format off: one operand, one row
constexpr MultiHeadOperandRow rows[] = {
    {"query", &Tensors::query, input},
    {"key", &Tensors::key, input},
    {"value", &Tensors::value, input},
    {"parameters.query_weight", &Parameters::query_weight, input},
    {"parameters.key_weight", &Parameters::key_weight, input},
    {"parameters.value_weight", &Parameters::value_weight, input},
    {"parameters.in_weight", &Parameters::in_weight, input},
    {"parameters.out_weight", &Parameters::out_weight, input},
    {"parameters.query_bias", &Parameters::query_bias, input},
    {"parameters.key_bias", &Parameters::key_bias, input},
    {"parameters.value_bias", &Parameters::value_bias, input},
    {"parameters.in_bias", &Parameters::in_bias, input},
    {"parameters.out_bias", &Parameters::out_bias, input},
    {"options.rotary.positions", &Rotary::positions, input},
    {"options.rotary.frequencies", &Rotary::frequencies, input},
    {"options.rotary.sections", &Rotary::sections, input},
    {"options.rotary.cosines", &Rotary::cosines, input},
    {"options.rotary.sines", &Rotary::sines, input},
    {"options.attention.alibi_slopes", &Attention::alibi_slopes, input},  // with a schedule; else attention tells
    {"options.attention.sinks", &Attention::sinks, input},
    {"options.key_pages", &Options::key_pages, output},
    {"options.value_pages", &Options::value_pages, output},
    {"options.key_scales", &Options::key_scales, output},
    {"options.value_scales", &Options::value_scales, output},
    {"options.kept", &Options::kept, output},
    {"out", &Tensors::out, output},
};
// clang-format on

constexpr size_t most_operands = std::size(rows) + operand_count + MultiHeadExtras::most;

}  // namespace

constexpr std::span<const MultiHeadOperandRow> multi_head_operand_rows = rows;

TensorArgument MultiHeadOperandRow::tensor_of(const Tensors &tensors, const Parameters *parameters,
                                              const MultiHeadCall &call) const {
  if (const auto *argument = std::get_if<TensorArgument Tensors::*>(&source)) return tensors.**argument;
  if (const auto *option = std::get_if<const fovea_tensor * Rotary::*>(&source)) return call.rotary.**option;
  if (const auto *option = std::get_if<const fovea_tensor * Attention::*>(&source)) return call.attention.**option;
  if (const auto *option = std::get_if<const fovea_tensor * Options::*>(&source)) return call.options.**option;
  if (parameters == nullptr) return nullptr;
  return parameters->**std::get_if<const fovea_tensor * Parameters::*>(&source);
}

Status check_multi_head_overlaps(const MultiHeadTensors &tensors, const MultiHeadCall &call,
                                 const MultiHeadExtras &extras) {
  NamedTensor inputs[most_operands], outputs[most_operands];
  size_t input_count = 0, output_count = 0;
  const auto add = [&](const char *name, const fovea_tensor *tensor, bool is_output) {
    (is_output ? outputs[output_count++] : inputs[input_count++]) = {name, tensor};
  };
  fovea_mha_parameters parameters = {};
  if (call.parameters != nullptr) {
    FOVEA_CHECK(read_options("parameters", call.parameters, &parameters));
  }
  TensorArgument given[std::size(rows)];
  for (size_t n = 0; n < std::size(rows); ++n) {
    given[n] = rows[n].tensor_of(tensors, call.parameters == nullptr ? nullptr : &parameters, call);
    add(rows[n].name, given[n], rows[n].output);
  }
  const AttentionCall &attention = call.plan.call;
  for (const OperandRow &row : operand_rows) {
    if (row.is_argument() || !attention.present[row.operand]) continue;
    if (row.operand == log_sum_exp_operand && call.attention_keeps) continue;  // a part of options.kept
    add(operand_name(attention, row.operand), &attention.tensor[row.operand], row.is_output());
  }
  for (const NamedTensor &extra : extras.inputs()) add(extra.name, extra.tensor, input);
  for (const NamedTensor &extra : extras.outputs()) add(extra.name, extra.tensor, output);
  return check_overlaps(std::span(outputs, output_count), std::span(inputs, input_count));
}

}  // namespace fovea
