// A tensor as an operation was given it, made safe to compute with.
#pragma once

#include "fovea/fovea.h"

namespace fovea {

// A caller's tensor, or none, but for strides that are never stepped along: those of axes of size 0 or 1, and all of
// them where there are no elements. What the caller has there may be anything (NumPy leaves there what slicing left, or
// 0), so here they are 0, and nothing that comes after needs to know.
class TensorArgument {
 public:
  TensorArgument() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): what a function is called with becomes one
  TensorArgument(const fovea_tensor *given);

  // NOLINTNEXTLINE(google-explicit-constructor): null where none was given, as what it was made of
  operator const fovea_tensor *() const;
  const fovea_tensor *operator->() const { return &tensor_; }

 private:
  fovea_tensor tensor_ = {};
  bool given_ = false;
};

// Row-major strides for tensor.shape. False if one does not fit; that one and those before it are then INT64_MAX.
bool set_contiguous(fovea_tensor *tensor);

// What fovea_tensor_contiguous gives.
FOVEA_NO_ACCESS(1)
fovea_tensor contiguous_tensor(const void *data, fovea_dtype dtype, int32_t rank, const int64_t *shape);

}  // namespace fovea
