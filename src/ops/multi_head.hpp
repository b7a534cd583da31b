// Multi-head attention: project, attend, project back. Formula and sizes stand in layers.h.
#pragma once

#include "ops/mha_weights.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

struct MultiHeadTensors {
  const fovea_tensor *query, *key, *value, *out;  // key and value may be null: then as the one before
};

[[nodiscard]] Status multi_head_attention(const Context *given, const fovea_mha_weights *weights,
                                          const MultiHeadTensors &tensors, const fovea_mha_options *options);

}  // namespace fovea
