// The C function that describes a contiguous tensor.
#include "types.hpp"

#include "fovea/fovea.h"

fovea_tensor fovea_tensor_contiguous(const void *data, fovea_dtype dtype, int32_t rank, const int64_t *shape) {
  fovea_tensor tensor = {};
  tensor.data = const_cast<void *>(data);
  tensor.dtype = dtype;
  tensor.rank = -1;
  if (rank < 0 || rank > FOVEA_MAX_RANK || (shape == nullptr && rank > 0)) return tensor;
  tensor.rank = rank;
  int64_t stride = 1;
  for (int32_t axis = rank - 1; axis >= 0; --axis) {
    tensor.shape[axis] = shape[axis];
    tensor.strides[axis] = stride;
    // Sizes that overflow are refused by the operation: the largest stride there is cannot fit either.
    if (!fovea::checked_multiply(stride, fovea::max_of(shape[axis], 1), &stride)) stride = INT64_MAX;
  }
  return tensor;
}
