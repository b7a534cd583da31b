#include "ops/tensors/copy.hpp"

#include <algorithm>
#include <cstring>

#include "ops/tensors/check.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/parallel.hpp"

namespace fovea {

void gather(const float *from, int64_t stride, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

void gather(const fovea_tensor &vector, float *to) {
  gather(static_cast<const float *>(vector.data), vector.strides[0], vector.shape[0], to);
}

int copying_workers(const Context &context, int64_t floats) {
  constexpr double cycles_per_float = 0.5;  // from and to a cache
  return workers_for(context, cycles_per_float * static_cast<double>(floats));
}

void copy_rows(const Context &context, const fovea_tensor &from, const fovea_tensor &to) {
  constexpr int64_t task_floats = 32768;  // some 10 microseconds
  const int64_t floats = element_count(from);
  if (floats == 0) return;
  const Runs runs = join_axes(from, to);
  const int64_t pieces = ceil_div(runs.length, task_floats);
  const int64_t piece = ceil_div(runs.length, pieces);
  const int64_t rows_per_task = std::max<int64_t>(1, task_floats / runs.length);
  const int64_t tasks = ceil_div(runs.rows.count, rows_per_task) * pieces;
  const auto *source = static_cast<const float *>(from.data);
  auto *target = static_cast<float *>(to.data);
  run_tasks(context, copying_workers(context, floats), tasks, [&](int, int64_t task) {
    const int64_t begin = task / pieces * rows_per_task;
    const int64_t end = std::min(begin + rows_per_task, runs.rows.count);
    const int64_t first = task % pieces * piece;
    const size_t size = static_cast<size_t>(std::min(piece, runs.length - first)) * sizeof(float);
    RowCursor cursor(runs.rows, begin);
    for (int64_t row = begin; row < end; ++row, cursor.next()) {
      std::memcpy(target + cursor.out_offset() + first, source + cursor.x_offset() + first, size);
    }
  });
}

}  // namespace fovea
