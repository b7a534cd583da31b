// A strided tensor in guarded memory that knows its fovea_tensor, and dense copies of it for the reference.
#pragma once

#include <fovea/fovea.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "guarded_memory.hpp"
#include "random.hpp"

namespace testing {

using Shape = std::vector<int64_t>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
constexpr fovea_dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return FOVEA_F32;
  if constexpr (std::is_same_v<T, int32_t>) return FOVEA_I32;
  if constexpr (std::is_same_v<T, int64_t>) return FOVEA_I64;
  if constexpr (std::is_same_v<T, uint16_t>) return FOVEA_BF16;  // or F16: its user knows
  if constexpr (std::is_same_v<T, uint8_t>) return FOVEA_BOOL;
  if constexpr (std::is_same_v<T, int8_t>) return FOVEA_I8;
}

inline int64_t element_count(const Shape &shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

inline Shape contiguous_strides(const Shape &shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis] > 0 ? shape[axis] : 1;
  }
  return strides;
}

// Contiguous in memory when the axes are visited in the given order (outermost first), with `gap` unused elements after
// each row of the last axis: {0, 2, 1, 3} stores [B,H,L,D] as B,L,H,D.
inline Shape permuted_strides(const Shape &shape, const std::vector<int> &order, int64_t gap = 0) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t n = order.size(); n-- > 0;) {
    const size_t axis = static_cast<size_t>(order[n]);
    strides[axis] = stride;
    stride *= shape[axis] > 0 ? shape[axis] : 1;
    if (n + 1 == order.size()) stride += gap;
  }
  return strides;
}

// Calls visit(index) for each index of the shape, in row-major order.
template <typename Visit>
void for_each_index(const Shape &shape, Visit visit) {
  if (element_count(shape) == 0) return;
  Shape index(shape.size(), 0);
  for (;;) {
    visit(static_cast<const Shape &>(index));
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// Calls visit(offset) for each element of what has these sizes and strides, in row-major order: all of a row at once.
template <typename Visit>
void for_each_offset(const Shape &shape, const Shape &strides, Visit visit) {
  if (shape.empty()) return visit(int64_t{0});
  const int64_t row = shape.back(), step = strides.back();
  for_each_index(Shape(shape.begin(), shape.end() - 1), [&](const Shape &index) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * strides[axis];
    for (int64_t i = 0; i < row; ++i, offset += step) visit(offset);
  });
}

template <typename T>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Shape shape) : Tensor(shape, contiguous_strides(shape)) {}
  Tensor(Shape shape, Shape strides) : shape_(std::move(shape)), strides_(std::move(strides)) {
    int64_t last = 0;
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      const int64_t reach = (shape_[axis] - 1) * strides_[axis];
      if (reach < 0) {
        origin_ -= reach;
      } else {
        last += reach;
      }
    }
    const int64_t elements = element_count(shape_) == 0 ? 0 : origin_ + last + 1;
    if (elements == 0) origin_ = 0;
    memory_ = GuardedMemory(static_cast<size_t>(elements) * sizeof(T), sizeof(T));
    std::memset(memory_.data(), kUnwritten, memory_.size());
  }

  const Shape &shape() const { return shape_; }
  const Shape &strides() const { return strides_; }
  int64_t count() const { return element_count(shape_); }
  const GuardedMemory &memory() const { return memory_; }
  T *data() const { return reinterpret_cast<T *>(memory_.data()) + origin_; }

  fovea_tensor view() const {
    fovea_tensor view{};
    view.data = data();
    view.dtype = dtype_of<T>();
    view.rank = static_cast<int32_t>(shape_.size());
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      view.shape[axis] = shape_[axis];
      view.strides[axis] = strides_[axis];
    }
    return view;
  }

  template <typename... Index>
  T &operator()(Index... index) const {
    int64_t offset = 0;
    size_t axis = 0;
    ((offset += static_cast<int64_t>(index) * strides_[axis++]), ...);
    return data()[offset];
  }
  T &at(const Shape &index) const {
    int64_t offset = 0;
    for (size_t axis = 0; axis < shape_.size(); ++axis) offset += index[axis] * strides_[axis];
    return data()[offset];
  }

  // Sets element by element, last axis fastest.
  template <typename Make>
  Tensor &fill(Make make) {
    memory_.thaw();
    for_each_offset(shape_, strides_, [&, to = data()](int64_t offset) { to[offset] = make(); });
    return *this;
  }
  Tensor &fill_normal(Random &random) {
    return fill([&] { return random.normal(); });
  }
  Tensor &assign(const std::vector<T> &dense) {
    memory_.thaw();
    size_t next = 0;
    for_each_offset(shape_, strides_, [&, to = data()](int64_t offset) { to[offset] = dense.at(next++); });
    return *this;
  }

  std::vector<T> dense() const { return dense(shape_); }

  // Row-major copy, with axes of size 1, and those that are missing before the first, repeated up to the wanted shape.
  std::vector<T> dense(const Shape &wanted) const {
    std::vector<T> values;
    values.reserve(static_cast<size_t>(element_count(wanted)));
    Shape strides(wanted.size(), 0);
    const size_t missing = wanted.size() - shape_.size();
    for (size_t axis = 0; axis < shape_.size(); ++axis)
      strides[missing + axis] = shape_[axis] == 1 ? 0 : strides_[axis];
    for_each_offset(wanted, strides, [&, from = data()](int64_t offset) { values.push_back(from[offset]); });
    return values;
  }

  // True if the bytes between the elements (the gaps that strides leave) still hold what a fresh tensor holds.
  bool gaps_untouched() const {
    if (strides_ == contiguous_strides(shape_)) return true;  // no gaps
    std::vector<bool> element(memory_.size() / sizeof(T), false);
    for_each_offset(shape_, strides_, [&](int64_t offset) { element[static_cast<size_t>(origin_ + offset)] = true; });
    for (size_t n = 0; n < element.size(); ++n) {
      if (!element[n] && !unwritten(n)) return false;
    }
    return true;
  }

  // True if no element was written since the tensor was made.
  bool untouched() const {
    for (size_t n = 0; n < memory_.size() / sizeof(T); ++n) {
      if (!unwritten(n)) return false;
    }
    return true;
  }

 private:
  static constexpr int kUnwritten = 0xA7;  // as a float: -4.6e-15, a number no test produces

  bool unwritten(size_t n) const {
    unsigned char pattern[sizeof(T)];
    std::memset(pattern, kUnwritten, sizeof(T));
    return std::memcmp(memory_.data() + n * sizeof(T), pattern, sizeof(T)) == 0;
  }

  Shape shape_;
  Shape strides_;
  int64_t origin_ = 0;  // of element (0, ..., 0) from the lowest address; above 0 where a stride is negative
  GuardedMemory memory_;
};

// Loops over elements are compiled once, where they are optimised.
extern template class Tensor<float>;
extern template class Tensor<int32_t>;
extern template class Tensor<int64_t>;
extern template class Tensor<uint16_t>;
extern template class Tensor<uint8_t>;
extern template class Tensor<int8_t>;

}  // namespace testing
