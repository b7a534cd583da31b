#include "ops/tensors/copy.hpp"

#include <algorithm>
#include <cstring>

#include "ops/tensors/check.hpp"
#include "ops/tensors/dtype.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/memory_layout.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

// `count` elements of each row. `rows` by value: where each lies is then reckoned without a look at memory.
void copy_elements(RowSpace rows, int64_t begin, int64_t end, const char *from, char *to, int64_t count, int64_t size) {
  RowCursor cursor(rows, begin);
  for (int64_t row = begin; row < end; ++row, cursor.next()) {
    std::memcpy(to + cursor.out_offset() * size, from + cursor.x_offset() * size, static_cast<size_t>(count * size));
  }
}

}  // namespace

void convert_elements(const RowwiseKernels &kernels, const void *from, Dtype from_dtype, int64_t count, void *to,
                      Dtype to_dtype) {
  constexpr int64_t most = 1024;
  alignas(cache_line) float floats[most];
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<size_t>(count * bytes_of(to_dtype)));
  } else if (from_dtype == Dtype::f32) {
    kernels.narrow_row(static_cast<const float *>(from), count, to, to_dtype);
  } else if (to_dtype == Dtype::f32) {
    kernels.widen_rows(from, from_dtype, 0, 1, count, static_cast<float *>(to), 0);
  } else {
    for (int64_t first = 0; first < count; first += most) {
      const int64_t some = std::min(most, count - first);
      kernels.widen_rows(element_at(from, from_dtype, first), from_dtype, 0, 1, some, floats, 0);
      kernels.narrow_row(floats, some, element_at(to, to_dtype, first), to_dtype);
    }
  }
}

void gather(const float *from, int64_t stride, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

void gather(const fovea_tensor &vector, void *to) {
  const int64_t stride = vector.strides[0], count = vector.shape[0];
  if (bytes_of(static_cast<Dtype>(vector.dtype)) != sizeof(uint16_t)) {
    return gather(static_cast<const float *>(vector.data), stride, count, static_cast<float *>(to));
  }
  const auto *from = static_cast<const uint16_t *>(vector.data);
  for (int64_t i = 0; i < count; ++i) static_cast<uint16_t *>(to)[i] = from[i * stride];
}

void gather_floats(const Kernels &kernels, const fovea_tensor &vector, float *to) {
  const auto dtype = static_cast<Dtype>(vector.dtype);
  if (dtype == Dtype::f32) return gather(vector, to);
  kernels.rowwise->widen_rows(vector.data, dtype, vector.strides[0], vector.shape[0], 1, to, 1);
}

int copying_workers(const Context &context, int64_t elements) {
  constexpr double cycles_per_element = 0.5;  // from and to a cache
  return workers_for(context, cycles_per_element * static_cast<double>(elements));
}

void store_float(const RowwiseKernels &kernels, float number, const fovea_tensor &to, int64_t at) {
  const auto dtype = static_cast<Dtype>(to.dtype);
  kernels.narrow_row(&number, 1, element_at(to.data, dtype, at), dtype);
}

void copy_rows(const Context &context, const fovea_tensor &from, const fovea_tensor &to) {
  constexpr int64_t task_elements = 32768;  // some 10 microseconds
  const int64_t elements = element_count(from);
  if (elements == 0) return;
  const Runs runs = join_axes(from, to);
  const int64_t pieces = ceil_div(runs.length, task_elements);
  const int64_t piece = ceil_div(runs.length, pieces);
  const int64_t rows_per_task = std::max<int64_t>(1, task_elements / runs.length);
  const int64_t tasks = ceil_div(runs.rows.count, rows_per_task) * pieces;
  const auto from_dtype = static_cast<Dtype>(from.dtype);
  const auto to_dtype = static_cast<Dtype>(to.dtype);
  const auto size = static_cast<int64_t>(dtype_size(to_dtype));
  run_tasks(context, copying_workers(context, elements), tasks, [&](int, int64_t task) {
    const int64_t begin = task / pieces * rows_per_task;
    const int64_t end = std::min(begin + rows_per_task, runs.rows.count);
    const int64_t first = task % pieces * piece;
    const int64_t count = std::min(piece, runs.length - first);
    const void *source = element_at(from.data, from_dtype, first);
    void *target = element_at(to.data, to_dtype, first);
    if (from_dtype != to_dtype) {
      RowCursor cursor(runs.rows, begin);
      for (int64_t row = begin; row < end; ++row, cursor.next()) {
        convert_elements(*context.kernels->rowwise, element_at(source, from_dtype, cursor.x_offset()), from_dtype,
                         count, element_at(target, to_dtype, cursor.out_offset()), to_dtype);
      }
      return;
    }
    copy_elements(runs.rows, begin, end, static_cast<const char *>(source), static_cast<char *>(target), count, size);
  });
}

}  // namespace fovea
