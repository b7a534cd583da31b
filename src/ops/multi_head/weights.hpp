// The weights of a multi-head attention layer: panels as the matmul kernel reads them.
#pragma once

#include "ops/tensors/check.hpp"
#include "runtime/context.hpp"
#include "status.hpp"
#include "types.hpp"

// The panels of query, key and value lie one after the other, as do their biases, each part padded to whole panels:
// where they share an input and a type, they are one product.
struct fovea_mha_weights {
  struct PackedLinear {
    int64_t inputs = 0, outputs = 0;
    int64_t padded = 0;  // outputs, rounded up to whole panels
    fovea::Dtype dtype = fovea::Dtype::f32;
    float *panels = nullptr;  // of that type
    float *bias = nullptr;    // [padded]; null: none
  };

  const fovea::Kernels *kernels = nullptr;
  int64_t heads = 0, kv_heads = 0;
  int64_t head_dim = 0, key_dim = 0, value_dim = 0;
  PackedLinear query, key, value;
  PackedLinear out;     // no inputs: no product
  bool medium = false;  // packed for it: rows of float32 may be rounded to bfloat16
  size_t size = 0;
  void *memory = nullptr;  // holds all of it

  fovea_mha_weights() = default;
  fovea_mha_weights(const fovea_mha_weights &) = delete;
  fovea_mha_weights &operator=(const fovea_mha_weights &) = delete;
  ~fovea_mha_weights();
};

namespace fovea {

// Checks the parameters and gives the weights their sizes, but no memory; then packs them into memory of their own.
// What the parameters hold is not looked at before that.
[[nodiscard]] Status plan_mha_weights(const Context *given, const fovea_mha_parameters *parameters,
                                      fovea_mha_weights *weights);
[[nodiscard]] Status pack_mha_weights(const Context &context, const fovea_mha_parameters &parameters,
                                      fovea_mha_weights *weights);

[[nodiscard]] Status create_mha_weights(const Context *given, const fovea_mha_parameters *parameters,
                                        fovea_mha_weights **weights);

}  // namespace fovea
