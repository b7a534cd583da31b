// Attention as it was called, and its checks. Formulas and options stand in fovea.h.
#pragma once

#include "kernels/attention/problem.hpp"
#include "ops/tensors/check.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

// The tensors of a call, in a fixed order.
enum Operand : int {
  query_operand,
  key_operand,
  value_operand,
  valid_lens_operand,
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
  operand_count
};

constexpr int first_score_operand = query_weight_operand;
constexpr int last_score_operand = sigmas_operand;

// A call as it was made, with its own copies of the descriptors, as a TensorArgument holds them.
struct AttentionCall {
  fovea_tensor tensor[operand_count];
  bool present[operand_count];
  bool planned;                         // a run of a plan: its arguments are fovea_attention_buffers
  fovea_score score;                    // its pointers are not used once the call has been read
  const fovea_prepared_keys *prepared;  // instead of a key; else null
  fovea_attention_options options;      // its pointers are not used once the call has been read
};

// What messages call an operand: "mask", "score.bias"; in the run of a plan "buffers.mask", "buffers.score_bias".
const char *operand_name(const AttentionCall &call, int operand);

// Copies descriptors and options; fails on a missing tensor or an options struct that cannot be read.
[[nodiscard]] Status read_attention_call(const fovea_tensor *query, const fovea_tensor *key, const fovea_tensor *value,
                                         const fovea_tensor *out, const fovea_attention_options *options,
                                         AttentionCall *call);

// Likewise the score function's; null: the scaled dot product.
[[nodiscard]] Status read_score(const fovea_score *score, AttentionCall *call);

// Kind, parameters and their sizes.
[[nodiscard]] Status check_score(const AttentionCall &call, const AttentionSizes &sizes);

// Whether there is anything to compute: else no value is looked at, and no memory is needed.
inline bool has_rows(const AttentionProblem &problem) {
  return problem.sizes.batch > 0 && problem.sizes.heads > 0 && problem.sizes.query_len > 0;
}

// What check_score could not see without data.
[[nodiscard]] Status check_score_data(const AttentionCall &call);

// Every check that needs no data; on success the problem is complete but for its pointers.
[[nodiscard]] Status check_attention_call(const AttentionCall &call, AttentionProblem *problem);

// Every check that needs the data but the next: null or misaligned buffers, sigmas and valid lengths out of range.
[[nodiscard]] Status check_attention_data(const AttentionCall &call, const AttentionProblem &problem);

// No output shares memory with an input or with another output. For data that has been checked.
[[nodiscard]] Status check_attention_overlaps(const AttentionCall &call);

// Data that must be there, aligned and inside the address space, of those operands in [first, last] that are present.
[[nodiscard]] Status check_operand_data(const AttentionCall &call, int first, int last);

// Copies the tensors' data pointers into the problem.
void set_data(const AttentionCall &call, AttentionProblem *problem);

}  // namespace fovea
