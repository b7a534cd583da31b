#include "ops/products/batches.hpp"

#include <algorithm>

#include "types.hpp"

namespace fovea {
namespace {

constexpr int rank = 4;

// The operand as a tensor of rank 4: its first `axes` axes get out's sizes, with strides of 0 where its own differ.
fovea_tensor aligned(const fovea_tensor &operand, const fovea_tensor &out, int axes) {
  fovea_tensor view = operand;
  view.rank = rank;
  for (int axis = 0; axis < rank; ++axis) {
    const int own = axis - (rank - operand.rank), outs = axis - (rank - out.rank);
    const int64_t size = own < 0 ? 1 : operand.shape[own];
    view.shape[axis] = axis < axes ? (outs < 0 ? 1 : out.shape[outs]) : size;
    view.strides[axis] = own < 0 || size == 1 ? 0 : operand.strides[own];
  }
  return view;
}

bool becomes_one_axis(const fovea_tensor &operand) {
  return operand.strides[0] == operand.strides[1] * operand.shape[1];
}

}  // namespace

Batches::Batches(const fovea_tensor &a, const fovea_tensor &b, const fovea_tensor &out, const fovea_tensor *added)
    : a_(aligned(a, out, 2)),
      b_(aligned(b, out, 2)),
      out_(aligned(out, out, 2)),
      added_(aligned(added == nullptr ? out : *added, out, rank)) {
  const auto operands = {&a_, &b_, &out_, &added_};
  const int64_t outer = out_.shape[0], inner = out_.shape[1];
  const bool one = std::all_of(operands.begin(), operands.end(), [](const auto *o) { return becomes_one_axis(*o); });
  inner_axis_ = inner == 1 ? 0 : 1;
  if (outer == 1 || inner == 1 || one) {
    count_ = 1;
    inner_size_ = outer * inner;
  } else {
    count_ = outer;
    inner_size_ = inner;
  }
}

fovea_tensor Batches::part(const fovea_tensor &operand, int64_t outer) const {
  fovea_tensor part = operand;
  part.rank = 3;
  part.data = element_at(operand.data, static_cast<Dtype>(operand.dtype), outer * operand.strides[0]);
  part.shape[0] = inner_size_;
  part.strides[0] = operand.strides[inner_axis_];
  for (int axis = 1; axis < part.rank; ++axis) {
    part.shape[axis] = operand.shape[axis + 1];
    part.strides[axis] = operand.strides[axis + 1];
  }
  return part;
}

}  // namespace fovea
