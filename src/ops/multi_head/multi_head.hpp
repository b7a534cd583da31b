// Multi-head attention: project, attend, project back. Formula and sizes stand in layers.h.
#pragma once

#include "ops/multi_head/weights.hpp"
#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

struct MultiHeadTensors {
  TensorArgument query, key, value, out;  // key and value may be null: then as the one before
};

[[nodiscard]] Status multi_head_attention(const Context *given, const fovea_mha_weights *weights,
                                          const MultiHeadTensors &tensors, const fovea_mha_options *options);

// With weights that are packed for this call, unless it has nothing to multiply by them.
[[nodiscard]] Status multi_head_attention_once(const Context *given, const fovea_mha_parameters *parameters,
                                               const MultiHeadTensors &tensors, const fovea_mha_options *options);

}  // namespace fovea
