// How gradients of layers are judged, and what their tests share.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "accuracy.hpp"
#include "contexts.hpp"
#include "layer_gradients.hpp"
#include "same_bits.hpp"
#include "typed_tensor.hpp"

namespace testing {

// Each element is off by at most so many roundings of the sum of the magnitudes of its terms, or twice the most that
// the plain evaluation is, and by one of its type; as a whole the error is at most twice the plain one's.
inline void judge_gradient(const std::string &name, const TypedTensor &actual, const reference::Gradient<double> &truth,
                           const reference::Gradient<float> &plain, double roundings) {
  CAPTURE(name);
  const std::vector<float> dense = actual.dense();
  std::vector<double> bounds;
  double largest = 0;
  const double least = actual.dtype() == FOVEA_F16 ? 0x1p-25 : actual.dtype() == FOVEA_BF16 ? 0x1p-134 : 0x1p-149;
  for (size_t n = 0; n < truth.value.size(); ++n) {
    const double magnitude = std::isfinite(truth.magnitude[n]) ? truth.magnitude[n] : 0;
    largest = std::max(largest, magnitude);
    bounds.push_back(roundings * kEpsilon * magnitude + rounding_of(actual.dtype()) * std::abs(truth.value[n]) + least);
  }
  CHECK_EQ(judge_elements(dense, truth.value, plain.value, bounds), "");
  if (actual.dtype() == FOVEA_F32) CHECK_ACCURATE(dense, truth.value, plain.value, 4 * kEpsilon * largest);
  CHECK(actual.gaps_untouched());
}

inline TypedTensor normal_tensor(const Shape &shape, Random &random, bool any_type = true) {
  const fovea_dtype dtype = any_type ? random.pick({FOVEA_F32, FOVEA_F32, FOVEA_F16, FOVEA_BF16}) : FOVEA_F32;
  return std::move(TypedTensor(shape, dtype, some_strides(shape, random)).fill_normal(random));
}

inline TypedTensor output_tensor(const Shape &shape, Random &random, bool any_type = true) {
  const fovea_dtype dtype = any_type ? random.pick({FOVEA_F32, FOVEA_F32, FOVEA_F16, FOVEA_BF16}) : FOVEA_F32;
  return TypedTensor(shape, dtype, some_strides(shape, random));
}

// The same layout and type, not written.
inline TypedTensor like(const TypedTensor &tensor) {
  const fovea_tensor view = tensor.view();
  return TypedTensor(tensor.shape(), tensor.dtype(), Shape(view.strides, view.strides + view.rank));
}

}  // namespace testing
