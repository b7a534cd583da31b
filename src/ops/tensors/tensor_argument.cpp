#include "ops/tensors/tensor_argument.hpp"

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

}  // namespace fovea
