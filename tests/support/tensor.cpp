// Tensors of all element types.
#include "support/tensor.hpp"

namespace testing {

template class Tensor<float>;
template class Tensor<int32_t>;
template class Tensor<int64_t>;
template class Tensor<uint16_t>;
template class Tensor<uint8_t>;
template class Tensor<int8_t>;

}  // namespace testing
