// Numbers of 16 bits, bfloat16 and binary16, converted one by one from their definitions.
#pragma once

#include <fovea/fovea.h>

#include "tensor.hpp"

namespace testing {

// To nearest, ties to even; overflow to infinity; NaN stays one.
uint16_t narrowed(float x, fovea_dtype dtype);
float widened(uint16_t bits, fovea_dtype dtype);

// What the float becomes in that type; FOVEA_F32: itself.
inline float rounded_to(float x, fovea_dtype dtype) {
  return dtype == FOVEA_F32 ? x : widened(narrowed(x, dtype), dtype);
}

// The elements in memory of 16 bits each, with the same shape and strides.
class NarrowTensor {
 public:
  NarrowTensor(const Tensor<float> &from, fovea_dtype dtype);

  fovea_tensor view() const;
  uint16_t at(const Shape &index) const { return bits_.at(index); }
  bool gaps_untouched() const { return bits_.gaps_untouched(); }

 private:
  Tensor<uint16_t> bits_;
  fovea_dtype dtype_;
};

}  // namespace testing
