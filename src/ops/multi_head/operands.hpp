// The operands of multi-head attention beside those that attention's own options and score bring
// (attention/operands.hpp): one table, from which overlaps are checked. A new one is a row in operands.cpp.
#pragma once

#include <span>
#include <variant>

#include "ops/multi_head/call.hpp"

namespace fovea {

// Where a call has the tensor. Query and out have to be there, all others need not.
using MultiHeadSource =
    std::variant<TensorArgument MultiHeadTensors::*, const fovea_tensor * fovea_mha_parameters::*,
                 const fovea_tensor * fovea_rotary_options::*, const fovea_tensor * fovea_attention_options::*,
                 const fovea_tensor * fovea_mha_options::*>;

struct MultiHeadOperandRow {
  const char *name;  // in messages
  MultiHeadSource source;
  bool output;

  // parameters: null where weights were packed before, in memory of their own.
  TensorArgument tensor_of(const MultiHeadTensors &tensors, const fovea_mha_parameters *parameters,
                           const MultiHeadCall &call) const;
};

extern const std::span<const MultiHeadOperandRow> multi_head_operand_rows;

// Operands that a call has beside these.
class MultiHeadExtras {
 public:
  static constexpr size_t most = 32;  // a backward pass has 29

  void add(const char *name, const fovea_tensor *tensor, bool is_output) {
    (is_output ? outputs_[output_count_++] : inputs_[input_count_++]) = {name, tensor};
  }
  std::span<const NamedTensor> inputs() const { return {inputs_, input_count_}; }
  std::span<const NamedTensor> outputs() const { return {outputs_, output_count_}; }

 private:
  NamedTensor inputs_[most], outputs_[most];
  size_t input_count_ = 0, output_count_ = 0;
};

// No output shares memory with an input or with another output: of the rows above, of those of attention that callers
// have, which is all but its query, key, value and out, and of others. For data that has been checked.
[[nodiscard]] Status check_multi_head_overlaps(const MultiHeadTensors &tensors, const MultiHeadCall &call,
                                               const MultiHeadExtras &extras = {});

}  // namespace fovea
