// Makes entry n of a batch a tensor of its own, a batch of one.
#pragma once

#include <utility>
#include <vector>

#include "tensor.hpp"

namespace testing {

inline Tensor<float> batch_entry(const Tensor<float> &tensor, int64_t n) {
  Shape shape = tensor.shape();
  shape[0] = 1;
  const int64_t size = element_count(shape);
  const std::vector<float> dense = tensor.dense();
  return std::move(Tensor<float>(shape).assign({dense.begin() + n * size, dense.begin() + (n + 1) * size}));
}

}  // namespace testing
