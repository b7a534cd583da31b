// Walking the rows (the runs along the last axis) of an input and an output of one shape, whatever their strides.
#pragma once

#include <cstdint>

#include "fovea/fovea.h"

namespace fovea {

// The axes before the last, outermost first.
struct RowSpace {
  int axes = 0;
  int64_t shape[FOVEA_MAX_RANK] = {};
  int64_t x_strides[FOVEA_MAX_RANK] = {};
  int64_t out_strides[FOVEA_MAX_RANK] = {};
  int64_t count = 1;

  void add_axis(int64_t size, int64_t x_stride, int64_t out_stride) {
    shape[axes] = size;
    x_strides[axes] = x_stride;
    out_strides[axes] = out_stride;
    count *= size;
    ++axes;
  }
};

// The elements of two tensors of one shape as runs of elements that follow each other in both.
struct Runs {
  RowSpace rows;
  int64_t length = 1;
};

Runs join_axes(const fovea_tensor &x, const fovea_tensor &out);

// Stands at a row, in row-major order. Offsets are in elements.
class RowCursor {
 public:
  RowCursor(const RowSpace &space, int64_t row) : space_(space) {
    for (int axis = space.axes - 1; axis >= 0; --axis) {
      index_[axis] = row % space.shape[axis];
      row /= space.shape[axis];
      x_offset_ += index_[axis] * space.x_strides[axis];
      out_offset_ += index_[axis] * space.out_strides[axis];
    }
  }

  int64_t index(int axis) const { return index_[axis]; }
  int64_t x_offset() const { return x_offset_; }
  int64_t out_offset() const { return out_offset_; }

  void next() {
    for (int axis = space_.axes - 1; axis >= 0; --axis) {
      x_offset_ += space_.x_strides[axis];
      out_offset_ += space_.out_strides[axis];
      if (++index_[axis] < space_.shape[axis]) return;
      x_offset_ -= space_.shape[axis] * space_.x_strides[axis];
      out_offset_ -= space_.shape[axis] * space_.out_strides[axis];
      index_[axis] = 0;
    }
  }

 private:
  const RowSpace &space_;
  int64_t index_[FOVEA_MAX_RANK] = {};
  int64_t x_offset_ = 0;
  int64_t out_offset_ = 0;
};

}  // namespace fovea
