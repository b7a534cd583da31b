#include "ops/attention/operands.hpp"

#include <type_traits>

namespace fovea {
namespace {

using Arguments = AttentionArguments;
using Options = fovea_attention_options;
using Buffers = fovea_attention_buffers;
using Problem = AttentionProblem;

// problem->part.pointer = data
template <auto part, auto pointer>
void set(void *data, Problem *problem) {
  auto &to = problem->*part.*pointer;
  to = static_cast<std::remove_reference_t<decltype(to)>>(data);
}

template <auto rows>
void set_scales(void *data, Problem *problem) {
  (problem->*rows).scales.data = static_cast<const Float16 *>(data);
}

constexpr Elements f32 = Elements::f32, floats = Elements::floats;
constexpr bool contiguous = true, any_strides = false;

}  // namespace

// clang-format off: one operand, one row
constexpr OperandRow operand_rows[operand_count] = {
    {query_operand, "query", "buffers.query", &Arguments::query, &Buffers::query, floats, contiguous,
     set<&Problem::query, &HeadRows::data>},
    {key_operand, "key", "buffers.key", &Arguments::key, &Buffers::key, Elements::keys, contiguous,
     set<&Problem::key, &HeadRows::data>},
    {value_operand, "value", "buffers.value", &Arguments::value, &Buffers::value, Elements::values, contiguous,
     set<&Problem::value, &HeadRows::data>},
    {key_scales_operand, "key_scales", "buffers.key_scales", &Options::key_scales, &Buffers::key_scales, Elements::f16,
     contiguous, set_scales<&Problem::key>},
    {value_scales_operand, "value_scales", "buffers.value_scales", &Options::value_scales, &Buffers::value_scales,
     Elements::f16, contiguous, set_scales<&Problem::value>},
    {valid_lens_operand, "valid_lens", "buffers.valid_lens", &Options::valid_lens, &Buffers::valid_lens,
     Elements::integers, any_strides, set<&Problem::pattern, &KeyPattern::valid_lens>},
    {query_offsets_operand, "query_offsets", "buffers.query_offsets", &Options::query_offsets, &Buffers::query_offsets,
     Elements::integers, any_strides, set<&Problem::pattern, &KeyPattern::query_offsets>},
    {mask_operand, "mask", "buffers.mask", &Options::mask, &Buffers::mask, Elements::boolean, contiguous,
     set<&Problem::pattern, &KeyPattern::mask>},
    {bias_operand, "bias", "buffers.bias", &Options::bias, &Buffers::bias, floats, contiguous,
     set<&Problem::logits, &LogitTerms::bias>},
    {alibi_slopes_operand, "alibi_slopes", "buffers.alibi_slopes", &Options::alibi_slopes, &Buffers::alibi_slopes, f32,
     any_strides, set<&Problem::logits, &LogitTerms::alibi_slopes>},
    {sinks_operand, "sinks", "buffers.sinks", &Options::sinks, &Buffers::sinks, f32, any_strides,
     set<&Problem::logits, &LogitTerms::sinks>},
    {query_weight_operand, "score.query_weight", "buffers.query_weight", &fovea_score::query_weight,
     &Buffers::query_weight, floats, any_strides, nullptr},
    {key_weight_operand, "score.key_weight", "buffers.key_weight", &fovea_score::key_weight, &Buffers::key_weight,
     floats, any_strides, nullptr},
    {weight_operand, "score.weight", "buffers.weight", &fovea_score::weight, &Buffers::weight, floats, any_strides,
     nullptr},
    {score_bias_operand, "score.bias", "buffers.score_bias", &fovea_score::bias, &Buffers::score_bias, floats,
     any_strides, nullptr},
    {score_vector_operand, "score.score_vector", "buffers.score_vector", &fovea_score::score_vector,
     &Buffers::score_vector, floats, any_strides, nullptr},
    {sigmas_operand, "score.sigmas", "buffers.sigmas", &fovea_score::sigmas, &Buffers::sigmas, f32, any_strides,
     nullptr},
    {out_operand, "out", "buffers.out", &Arguments::out, &Buffers::out, floats, contiguous,
     set<&Problem::outputs, &AttentionOutputs::out>},
    {log_sum_exp_operand, "log_sum_exp", "buffers.log_sum_exp", &Options::log_sum_exp, &Buffers::log_sum_exp, f32,
     any_strides, set<&Problem::outputs, &AttentionOutputs::log_sum_exp>},
    {weights_operand, "weights", "buffers.weights", &Options::weights, &Buffers::weights, floats, contiguous,
     set<&Problem::outputs, &AttentionOutputs::weights>},
    {scores_operand, "scores", "buffers.scores", &Options::scores, &Buffers::scores, floats, contiguous,
     set<&Problem::outputs, &AttentionOutputs::scores>},
    {projected_query_operand, "projected_query", "buffers.projected_query", &Options::projected_query,
     &Buffers::projected_query, f32, contiguous, nullptr},
    {projected_key_operand, "projected_key", "buffers.projected_key", &Options::projected_key, &Buffers::projected_key,
     f32, contiguous, nullptr},
};
// clang-format on

static_assert(
    [] {
      for (int operand = 0; operand < operand_count; ++operand) {
        if (operand_rows[operand].operand != operand) return false;
        const bool parameter = operand >= first_score_operand && operand <= last_score_operand;
        if (std::holds_alternative<const fovea_tensor * fovea_score::*>(operand_rows[operand].tensor) != parameter)
          return false;
      }
      return true;
    }(),
    "a row for each operand, in their order");

const fovea_tensor *OperandRow::tensor_of(const Arguments &arguments, const Options &options) const {
  if (const auto *argument = std::get_if<const fovea_tensor * Arguments::*>(&tensor)) return arguments.**argument;
  if (const auto *option = std::get_if<const fovea_tensor * Options::*>(&tensor)) return options.**option;
  return nullptr;
}

const fovea_tensor *OperandRow::tensor_of(const fovea_score &score) const {
  const auto *parameter = std::get_if<const fovea_tensor * fovea_score::*>(&tensor);
  return parameter == nullptr ? nullptr : score.**parameter;
}

void *data_of(const BufferSource &source, const Buffers &buffers) {
  if (const auto *output = std::get_if<void * Buffers::*>(&source)) return buffers.**output;
  return const_cast<void *>(buffers.**std::get_if<const void * Buffers::*>(&source));
}

}  // namespace fovea
