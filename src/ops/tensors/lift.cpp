#include "ops/tensors/lift.hpp"

namespace fovea {

fovea_tensor lift(const fovea_tensor &tensor, std::initializer_list<int> places) {
  fovea_tensor lifted = {tensor.data, tensor.dtype, 4, {1, 1, 1, 1}, {}};
  int axis = 0;
  for (const int place : places) {
    lifted.shape[place] = tensor.shape[axis];
    lifted.strides[place] = tensor.strides[axis];
    ++axis;
  }
  return lifted;
}

fovea_tensor lift_heads(const fovea_tensor &tensor) {
  if (tensor.rank == 4) return tensor;
  return tensor.rank == 3 ? lift(tensor, {0, 2, 3}) : lift(tensor, {2, 3});
}

fovea_tensor lift_rows(const fovea_tensor &tensor) {
  if (tensor.rank == 3) return lift(tensor, {0, 1, 2});
  return tensor.rank == 2 ? lift(tensor, {0, 2}) : lift(tensor, {2});
}

HeadStrides head_strides(const fovea_tensor &lifted) {
  return {lifted.strides[0], lifted.strides[1], lifted.strides[2]};
}

fovea_tensor lower_heads(const fovea_tensor &tensor, int32_t rank) {
  fovea_tensor lowered = tensor;
  lowered.rank = rank;
  for (int axis = 0; axis < 2; ++axis) {
    lowered.shape[axis + rank - 2] = tensor.shape[axis + 2];
    lowered.strides[axis + rank - 2] = tensor.strides[axis + 2];
  }
  return lowered;
}

}  // namespace fovea
