// Dropout as kernels are told of it.
#pragma once

#include <stdint.h>

namespace fovea {

struct Dropout {
  uint32_t threshold;  // dropped is what draws a number below it: probability * 2^32; 0: no dropout
  float scale;         // of what is kept: 1 / (1 - probability)
  uint64_t seed;
};

}  // namespace fovea
