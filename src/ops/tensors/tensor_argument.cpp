#include "ops/tensors/tensor_argument.hpp"

#include "types.hpp"

namespace fovea {

TensorArgument::TensorArgument(const fovea_tensor *given) {
  if (given == nullptr) return;
  given_ = true;
  tensor_ = *given;
  if (tensor_.rank < 0 || tensor_.rank > FOVEA_MAX_RANK) return;  // is refused
  bool empty = false;
  for (int axis = 0; axis < tensor_.rank; ++axis) empty = empty || tensor_.shape[axis] == 0;
  for (int axis = 0; axis < tensor_.rank; ++axis) {
    if (empty || tensor_.shape[axis] == 1) tensor_.strides[axis] = 0;
  }
}

TensorArgument::operator const fovea_tensor *() const { return given_ ? &tensor_ : nullptr; }

bool set_contiguous(fovea_tensor *tensor) {
  int64_t stride = 1;
  bool fits = true;
  for (int32_t axis = tensor->rank - 1; axis >= 0; --axis) {
    tensor->strides[axis] = stride;
    if (axis == 0) break;
    if (!checked_multiply(stride, max_of(tensor->shape[axis], 1), &stride)) {
      stride = INT64_MAX;
      fits = false;
    }
  }
  return fits;
}

fovea_tensor contiguous_tensor(const void *data, fovea_dtype dtype, int32_t rank, const int64_t *shape) {
  fovea_tensor tensor = {};
  tensor.data = const_cast<void *>(data);
  tensor.dtype = dtype;
  tensor.rank = -1;
  if (rank < 0 || rank > FOVEA_MAX_RANK || (shape == nullptr && rank > 0)) return tensor;
  tensor.rank = rank;
  for (int32_t axis = 0; axis < rank; ++axis) tensor.shape[axis] = shape[axis];
  // Sizes that overflow are refused by the operation: the largest stride there is cannot fit either.
  static_cast<void>(set_contiguous(&tensor));
  return tensor;
}

}  // namespace fovea
