// Reads the parameters of multi-head attention in any of the layouts that models come in, and checks them.
#pragma once

#include "ops/multi_head/weights.hpp"
#include "ops/products/product.hpp"

namespace fovea {

// One weight as it was given, and the part it becomes.
struct WeightSource {
  const char *name = nullptr, *bias_name = nullptr;
  const fovea_tensor *weight = nullptr, *bias = nullptr;
  ProductMatrix matrix = {};
  const void *data = nullptr;
  const void *bias_data = nullptr;
  Dtype bias_dtype = Dtype::f32;
  int64_t bias_stride = 0;
};

struct WeightSources {
  WeightSource query, key, value, out;
};

// Everything that the parameters say, and the sizes that follow from it.
[[nodiscard]] Status read_parameters(const Context &context, const fovea_mha_parameters &given, WeightSources *sources,
                                     fovea_mha_weights *weights);

}  // namespace fovea
