// Walking the rows of several tensors of one shape at once, as ops/tensors/rows.hpp walks two.
#pragma once

#include <cstdint>

#include "fovea/fovea.h"

namespace fovea {

// Walks the first axes of some tensors. One that is null has strides of 0.
template <int tensors>
struct ManyRows {
  int axes = 0;
  int64_t count = 1;
  int64_t shape[FOVEA_MAX_RANK] = {};
  int64_t strides[FOVEA_MAX_RANK][tensors] = {};

  using Given = const fovea_tensor *const (&)[tensors];

  void add_axis(Given given, int axis) {
    shape[axes] = given[0]->shape[axis];
    for (int n = 0; n < tensors; ++n) strides[axes][n] = given[n] == nullptr ? 0 : given[n]->strides[axis];
    count *= shape[axes];
    ++axes;
  }

  // All axes but the last.
  static ManyRows of(Given given) {
    ManyRows rows;
    for (int axis = 0; axis + 1 < given[0]->rank; ++axis) rows.add_axis(given, axis);
    return rows;
  }
};

// How many elements follow each other in all tensors along the axes from *first on, which is lowered as far as they do.
template <int tensors>
int64_t joined_run(const fovea_tensor *const (&given)[tensors], int lowest, int *first) {
  int64_t run = 1;
  for (*first = given[0]->rank; *first > lowest; --*first) {
    const int axis = *first - 1;
    bool follows = true;
    for (const fovea_tensor *tensor : given) follows = follows && (tensor == nullptr || tensor->strides[axis] == run);
    if (given[0]->shape[axis] != 1 && !follows) break;
    run *= given[0]->shape[axis];
  }
  return run;
}

// Stands at a row, in row-major order. Offsets are in elements.
template <int tensors>
class ManyRowsCursor {
 public:
  ManyRowsCursor(const ManyRows<tensors> &rows, int64_t row) : rows_(rows) {
    for (int axis = rows.axes - 1; axis >= 0; --axis) {
      index_[axis] = row % rows.shape[axis];
      row /= rows.shape[axis];
      for (int n = 0; n < tensors; ++n) offset_[n] += index_[axis] * rows.strides[axis][n];
    }
  }

  int64_t index(int axis) const { return index_[axis]; }
  int64_t offset(int tensor) const { return offset_[tensor]; }

  void next() {
    for (int axis = rows_.axes - 1; axis >= 0; --axis) {
      const bool last = ++index_[axis] == rows_.shape[axis];
      for (int n = 0; n < tensors; ++n) {
        offset_[n] += (last ? 1 - rows_.shape[axis] : 1) * rows_.strides[axis][n];
      }
      if (!last) return;
      index_[axis] = 0;
    }
  }

 private:
  const ManyRows<tensors> &rows_;
  int64_t index_[FOVEA_MAX_RANK] = {};
  int64_t offset_[tensors] = {};
};

}  // namespace fovea
