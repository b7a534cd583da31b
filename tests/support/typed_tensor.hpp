// A tensor of float32, float16 or bfloat16 whose numbers tests know as floats: an input holds numbers that its type
// holds, an output is read as floats.
#pragma once

#include <optional>

#include "narrow.hpp"

namespace testing {

inline constexpr fovea_dtype kFloatTypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

// Any order of the axes but the last in memory, and perhaps gaps between rows.
inline Shape some_strides(const Shape &shape, Random &random) {
  std::vector<int> order(shape.size());
  for (size_t n = 0; n < order.size(); ++n) order[n] = static_cast<int>(n);
  for (size_t n = 0; n + 2 < order.size(); ++n) {
    std::swap(
        order[n],
        order[static_cast<size_t>(random.integer(static_cast<int64_t>(n), static_cast<int64_t>(order.size()) - 2))]);
  }
  return permuted_strides(shape, order, random.pick({0, 0, 3}));
}

class TypedTensor {
 public:
  TypedTensor() = default;
  explicit TypedTensor(const Shape &shape, fovea_dtype dtype = FOVEA_F32)
      : TypedTensor(shape, dtype, contiguous_strides(shape)) {}
  TypedTensor(const Shape &shape, fovea_dtype dtype, const Shape &strides) : floats_(shape, strides), dtype_(dtype) {
    narrow();
  }

  // Memory of its own with the same numbers.
  TypedTensor(const TypedTensor &other) : TypedTensor(other.shape(), other.dtype_, other.floats_.strides()) {
    if (count() == 0) return;
    const std::vector<float> values = other.dense();
    size_t next = 0;
    fill([&] { return values[next++]; });
  }
  TypedTensor &operator=(const TypedTensor &other) { return *this = TypedTensor(other); }
  TypedTensor(TypedTensor &&other) = default;
  TypedTensor &operator=(TypedTensor &&other) = default;
  ~TypedTensor() = default;

  template <typename Make>
  TypedTensor &fill(Make make) {
    floats_.fill([&] { return rounded_to(make(), dtype_); });
    narrow();
    return *this;
  }
  TypedTensor &fill_normal(Random &random) {
    return fill([&] { return random.normal(); });
  }
  void set(const Shape &index, float value) {
    floats_.memory().thaw();
    floats_.at(index) = rounded_to(value, dtype_);
    narrow();
  }

  fovea_dtype dtype() const { return dtype_; }
  const Shape &shape() const { return floats_.shape(); }
  int64_t count() const { return floats_.count(); }
  fovea_tensor view() const { return narrow_ ? narrow_->view() : floats_.view(); }
  bool gaps_untouched() const { return narrow_ ? narrow_->gaps_untouched() : floats_.gaps_untouched(); }

  // What is there now.
  std::vector<float> dense() const {
    std::vector<float> values;
    for_each_index(shape(), [&](const Shape &index) {
      values.push_back(narrow_ ? widened(narrow_->at(index), dtype_) : floats_.at(index));
    });
    return values;
  }

 private:
  void narrow() {
    if (dtype_ != FOVEA_F32) narrow_.emplace(floats_, dtype_);
  }

  Tensor<float> floats_;
  std::optional<NarrowTensor> narrow_;
  fovea_dtype dtype_ = FOVEA_F32;
};

// What rounding a result to its type may add to its error.
inline double rounding_of(fovea_dtype dtype) {
  return dtype == FOVEA_F32 ? 0.0 : dtype == FOVEA_F16 ? 0x1p-11 : 0x1p-8;
}

}  // namespace testing
