// The operands of attention: one table, from which reading a call, messages, the checks of buffers and overlaps, the
// binding of a plan's buffers and what the kernels are pointed at all come. A new operand is a row in operands.cpp, its
// number here, and its check.
#pragma once

#include <variant>

#include "kernels/attention/problem.hpp"
#include "ops/tensors/check.hpp"

namespace fovea {

// In the order in which they are checked and their overlaps are told.
enum Operand : int {
  query_operand,
  key_operand,
  value_operand,
  key_scales_operand,  // where key or value are of 8 or 4 bits
  value_scales_operand,
  valid_lens_operand,
  query_offsets_operand,
  mask_operand,
  bias_operand,
  alibi_slopes_operand,
  sinks_operand,
  query_weight_operand,  // the score function's parameters
  key_weight_operand,
  weight_operand,
  score_bias_operand,
  score_vector_operand,
  sigmas_operand,
  out_operand,
  log_sum_exp_operand,
  weights_operand,
  scores_operand,
  projected_query_operand,  // which a backward pass reads, as it reads log-sum-exp
  projected_key_operand,
  operand_count
};

constexpr int first_score_operand = query_weight_operand;
constexpr int last_score_operand = sigmas_operand;
constexpr int score_operand_count = last_score_operand - first_score_operand + 1;

// What a call is about. Exactly one of key and prepared is there; score belongs to key.
struct AttentionArguments {
  const fovea_score *score;
  const fovea_tensor *query, *key;
  const fovea_prepared_keys *prepared;
  const fovea_tensor *value, *out;
  const fovea_attention_options *options;
};

// floats: F32, F16 or BF16; keys: those or I8, where the score function takes that; values: those or U8, likewise;
// integers: I32 or I64.
enum class Elements { f32, f16, floats, keys, values, boolean, integers };

// Where a call has the tensor. An argument has to be there, a member of options or score need not.
using TensorSource = std::variant<const fovea_tensor * AttentionArguments::*,
                                  const fovea_tensor * fovea_attention_options::*, const fovea_tensor * fovea_score::*>;

// Where the run of a plan has its data: inputs are const.
using BufferSource = std::variant<const void * fovea_attention_buffers::*, void * fovea_attention_buffers::*>;

struct OperandRow {
  Operand operand;
  const char *name;         // in messages: "mask", "score.bias"
  const char *buffer_name;  // in those of a plan's run: "buffers.mask", "buffers.score_bias"
  TensorSource tensor;
  BufferSource buffer;
  Elements elements;
  bool contiguous_last;
  // Points the problem at the data; null for what score_tasks.cpp is about: the parameters of scores, projections.
  void (*set_data)(void *data, AttentionProblem *problem);

  bool takes_floats() const {
    return elements == Elements::floats || elements == Elements::keys || elements == Elements::values;
  }
  bool is_argument() const { return std::holds_alternative<const fovea_tensor * AttentionArguments::*>(tensor); }
  bool is_parameter() const { return std::holds_alternative<const fovea_tensor * fovea_score::*>(tensor); }
  bool is_output() const { return std::holds_alternative<void * fovea_attention_buffers::*>(buffer); }

  const fovea_tensor *tensor_of(const AttentionArguments &arguments, const fovea_attention_options &options) const;
  const fovea_tensor *tensor_of(const fovea_score &score) const;
};

// What a run has there.
void *data_of(const BufferSource &source, const fovea_attention_buffers &buffers);

extern const OperandRow operand_rows[operand_count];

}  // namespace fovea
