// Rows of elements of any type for tests that call kernels directly, and how far results are from the truth.
#pragma once

#include "kernels.hpp"
#include "narrow.hpp"

namespace testing {

using fovea::Dtype;

// Numbers in memory of their own, as elements of a type.
class Elements {
 public:
  Elements(int64_t count, Dtype dtype)
      : count_(count),
        dtype_(dtype),
        size_(dtype == Dtype::f32 ? 4 : 2),
        memory_(static_cast<size_t>(count) * size_, size_) {
    std::memset(memory_.data(), 0xa7, memory_.size());
  }
  Elements(const std::vector<float> &values, Dtype dtype) : Elements(static_cast<int64_t>(values.size()), dtype) {
    for (size_t n = 0; n < values.size(); ++n) {
      const uint16_t bits = dtype == Dtype::f32 ? 0 : narrowed(values[n], static_cast<fovea_dtype>(dtype));
      std::memcpy(memory_.data() + n * size_, dtype == Dtype::f32 ? static_cast<const void *>(&values[n]) : &bits,
                  size_);
    }
  }

  void *data() const { return memory_.data(); }
  void *at(int64_t n) const { return memory_.data() + static_cast<size_t>(n) * size_; }
  Dtype dtype() const { return dtype_; }
  std::vector<float> values() const {
    std::vector<float> values(static_cast<size_t>(count_));
    for (size_t n = 0; n < values.size(); ++n) {
      uint16_t bits = 0;
      std::memcpy(dtype_ == Dtype::f32 ? static_cast<void *>(&values[n]) : &bits, memory_.data() + n * size_, size_);
      if (dtype_ != Dtype::f32) values[n] = widened(bits, static_cast<fovea_dtype>(dtype_));
    }
    return values;
  }

 private:
  int64_t count_;
  Dtype dtype_;
  size_t size_;
  GuardedMemory memory_;
};

// How many elements are not those of the floats, rounded. NaNs are equal.
inline int64_t differing(const Elements &out, const Elements &truth) {
  const std::vector<float> got = out.values(), floats = truth.values();
  int64_t wrong = 0;
  for (size_t n = 0; n < got.size(); ++n) {
    const float expected = rounded_to(floats[n], static_cast<fovea_dtype>(out.dtype()));
    wrong += std::isnan(expected) ? !std::isnan(got[n]) : std::memcmp(&expected, &got[n], sizeof expected) != 0;
  }
  return wrong;
}

// Whether x and out go through kernels of their own type, which are within a little more than half a step of the type
// instead of float32's bits, rounded.
inline bool computes_narrowly(Dtype x, Dtype out) { return x == out && x != Dtype::f32; }

// The largest distance of an element from the truth, in steps of its type at the truth; what has to be infinite or NaN
// and is not, or the other way round, is infinitely far. `slack` is taken off first.
inline double largest_distance(const Elements &out, const std::vector<double> &truth, double slack = 0) {
  const bool brain = out.dtype() == Dtype::bf16;
  const std::vector<float> got = out.values();
  double largest = 0;
  for (size_t n = 0; n < got.size(); ++n) {
    const auto value = static_cast<double>(got[n]);
    const float rounded = rounded_to(static_cast<float>(truth[n]), static_cast<fovea_dtype>(out.dtype()));
    double distance = 0;
    if (std::isnan(truth[n]) || std::isnan(value)) {
      distance = std::isnan(truth[n]) && std::isnan(value) ? 0 : HUGE_VAL;
    } else if (std::isinf(rounded) || std::isinf(value)) {
      distance = value == static_cast<double>(rounded) ? 0 : HUGE_VAL;
    } else {
      const int least = brain ? -126 : -14;
      const int exponent = truth[n] == 0 ? least : std::max(least, std::ilogb(truth[n]));
      distance = std::max(0.0, std::abs(value - truth[n]) - slack) / std::ldexp(1.0, exponent - (brain ? 7 : 10));
    }
    largest = std::max(largest, distance);
  }
  return largest;
}
inline double largest_distance(const Elements &out, const Elements &truth, double slack = 0) {
  const std::vector<float> floats = truth.values();
  return largest_distance(out, std::vector<double>(floats.begin(), floats.end()), slack);
}

// Numbers that a type holds.
inline std::vector<float> numbers(int64_t count, Random &random, Dtype dtype, float size = 1) {
  std::vector<float> values = normals(count, random, size);
  for (float &value : values) value = rounded_to(value, static_cast<fovea_dtype>(dtype));
  return values;
}

constexpr Dtype kTypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

}  // namespace testing
