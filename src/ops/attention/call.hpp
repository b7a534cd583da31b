// Attention as it was called, and its checks. Formulas and options stand in fovea.h.
#pragma once

#include "ops/attention/operands.hpp"
#include "ops/tensors/check.hpp"
#include "ops/tensors/scaled.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

// A call as it was made, with its own copies of the descriptors, as a TensorArgument holds them.
struct AttentionCall {
  fovea_tensor tensor[operand_count];
  bool present[operand_count];
  bool planned;                         // a run of a plan: its arguments are fovea_attention_buffers
  bool backward;                        // a backward pass, which reads what this call gives
  fovea_score score;                    // its pointers are not used once the call has been read
  const fovea_prepared_keys *prepared;  // instead of a key; else null
  fovea_attention_options options;      // its pointers are not used once the call has been read
};

// What messages call an operand: "mask", "score.bias"; in the run of a plan "buffers.mask", "buffers.score_bias".
inline const char *operand_name(const AttentionCall &call, int operand) {
  return call.planned ? operand_rows[operand].buffer_name : operand_rows[operand].name;
}

// Whether a score function projects both queries and keys to hidden units.
inline bool has_hidden_units(int32_t kind) { return kind == FOVEA_SCORE_ADDITIVE || kind == FOVEA_SCORE_CONCAT; }

// Whether key or value is of numbers that have scales, in a call that takes that: keys of 8 bits, values of 8 or 4.
inline bool is_scaled(const AttentionCall &call, int operand) {
  const bool takes = call.score.kind == FOVEA_SCORE_DOT || call.score.kind == FOVEA_SCORE_BILINEAR;
  if (!takes || call.prepared != nullptr || !call.present[operand]) return false;
  const fovea_dtype dtype = call.tensor[operand].dtype;
  switch (operand_rows[operand].elements) {
    case Elements::keys: return dtype == FOVEA_I8;
    case Elements::values: return is_scaled_type(dtype);
    default: return false;
  }
}

// What an operand has to be before there is data. Integers may be of either size, which their own checks tell.
inline TensorRule operand_rule(const AttentionCall &call, int operand, int min_rank, int max_rank) {
  const OperandRow &row = operand_rows[operand];
  return {.name = operand_name(call, operand),
          .dtype = row.elements == Elements::boolean ? Dtype::boolean
                   : row.elements == Elements::f16   ? Dtype::f16
                   : is_scaled(call, operand)        ? static_cast<Dtype>(call.tensor[operand].dtype)
                                                     : Dtype::f32,
          .min_rank = min_rank,
          .max_rank = max_rank,
          .output = row.is_output() && !call.backward,
          .contiguous_last = row.contiguous_last,
          .needs_data = false,
          .narrow = row.takes_floats()};
}

inline Dtype operand_dtype(const AttentionCall &call, int operand) {
  return call.present[operand] ? static_cast<Dtype>(call.tensor[operand].dtype) : Dtype::f32;
}

// Copies descriptors and options; fails on a missing tensor or an options struct that cannot be read.
[[nodiscard]] Status read_attention_call(const AttentionArguments &arguments, AttentionCall *call);

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

}  // namespace fovea
