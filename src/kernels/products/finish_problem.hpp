// What a kernel is told that finishes sums: they become results, and nothing more is added up.
#pragma once

#include "kernels/products/matmul_problem.hpp"

namespace fovea {

// Sums over all of k: rows and columns of a task's out.
struct MatmulFinish {
  const MatmulTask &task;
  const float *sums;  // of the first row and column
  int64_t sums_stride;
  int64_t row, rows;
  int64_t column, columns;  // of at most one panel, or of as many as a row is multiplied by
};

}  // namespace fovea
