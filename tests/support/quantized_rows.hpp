// Rows of floats as fovea_quantize makes them: numbers of 8 bits with scales, or of 4 with scales and least numbers.
#pragma once

#include <fovea/fovea.h>

#include "contexts.hpp"
#include "tensor.hpp"

namespace testing {

// The numbers lie in the strides that the floats would have, of 4 bits with gaps behind them; the scales one behind the
// other.
class QuantizedRows {
 public:
  // dtype: FOVEA_I8 or FOVEA_U8. group: features that share a scale; 0: whole rows.
  QuantizedRows(const Shape &shape, const Shape &strides, fovea_dtype dtype, int64_t group) : dtype_(dtype) {
    const int64_t paired = dtype == FOVEA_U8 ? 2 : 1, dim = shape.back();
    numbers_ = Tensor<uint8_t>(with_last(shape, dim / paired), strides);
    scales_ = Tensor<uint16_t>(with_last(shape, paired * (group == 0 ? 1 : dim / group)));
  }

  void quantize(const fovea_context *context, const fovea_tensor &x) const {
    const fovea_tensor numbers = view(), its_scales = scales();
    REQUIRE_OK(fovea_quantize(context, &x, &numbers, &its_scales));
  }

  fovea_tensor view() const { return typed(numbers_.view(), dtype_); }
  fovea_tensor scales() const { return typed(scales_.view(), FOVEA_F16); }
  // In row-major order.
  std::vector<unsigned char> dense_numbers() const { return numbers_.dense(); }
  std::vector<uint16_t> dense_scales() const { return scales_.dense(); }

 private:
  static Shape with_last(Shape shape, int64_t size) {
    shape.back() = size;
    return shape;
  }
  static fovea_tensor typed(fovea_tensor view, fovea_dtype dtype) {
    view.dtype = dtype;
    return view;
  }

  Tensor<uint8_t> numbers_;
  Tensor<uint16_t> scales_;
  fovea_dtype dtype_;
};

}  // namespace testing
