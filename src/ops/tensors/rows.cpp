#include "ops/tensors/rows.hpp"

namespace fovea {

Runs join_axes(const fovea_tensor &x, const fovea_tensor &out) {
  Runs runs;
  int axis = x.rank - 1;
  for (; axis >= 0; --axis) {
    const bool follows = x.strides[axis] == runs.length && out.strides[axis] == runs.length;
    if (x.shape[axis] != 1 && !follows) break;
    runs.length *= x.shape[axis];
  }
  for (int outer = 0; outer <= axis; ++outer) {
    if (x.shape[outer] == 1) continue;  // its stride may be anything
    runs.rows.add_axis(x.shape[outer], x.strides[outer], out.strides[outer]);
  }
  return runs;
}

}  // namespace fovea
