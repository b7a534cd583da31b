// Merges partial attention. A task is a few rows, each over all its parts, so the parts are always taken in order.
#include "ops/attention/merge_states.hpp"

#include <algorithm>

#include "ops/attention/merge_check.hpp"
#include "ops/tensors/check.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 16384;    // read by a task
constexpr double cycles_per_float = 0.5;  // read

// Offset of a row whose axes start at first_axis of the tensor.
int64_t row_offset(const fovea_tensor &tensor, int first_axis, int axes, int64_t row) {
  int64_t offset = 0;
  for (int axis = first_axis + axes - 1; axis >= first_axis; --axis) {
    offset += row % tensor.shape[axis] * tensor.strides[axis];
    row /= tensor.shape[axis];
  }
  return offset;
}

MergeRow row_of(const fovea_tensor &outs, const fovea_tensor &lses, const fovea_tensor &out,
                const fovea_tensor *log_sum_exp, int64_t row) {
  const int axes = outs.rank - 2;
  const auto outs_type = static_cast<Dtype>(outs.dtype);
  const auto out_type = static_cast<Dtype>(out.dtype);
  return {.outs = element_at(static_cast<const void *>(outs.data), outs_type, row_offset(outs, 1, axes, row)),
          .outs_type = outs_type,
          .lses = static_cast<const float *>(lses.data) + row_offset(lses, 1, axes, row),
          .sums = nullptr,
          .unit = 1.0f,
          .out = element_at(out.data, out_type, row_offset(out, 0, axes, row)),
          .out_type = out_type,
          .log_sum_exp = log_sum_exp == nullptr
                             ? nullptr
                             : static_cast<float *>(log_sum_exp->data) + row_offset(*log_sum_exp, 0, axes, row),
          .parts = outs.shape[0],
          .value_dim = outs.shape[outs.rank - 1],
          .out_stride = outs.strides[0],
          .lse_stride = lses.strides[0]};
}

}  // namespace

Status merge_states(const Context *given, const TensorArgument &outs, const TensorArgument &lses,
                    const TensorArgument &out, const TensorArgument &log_sum_exp) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_merge(outs, lses, out, log_sum_exp));
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < out->rank; ++axis) rows *= out->shape[axis];
  if (element_count(*out) == 0 && (log_sum_exp == nullptr || rows == 0)) return FOVEA_OK;
  const int64_t floats_per_row = outs->shape[0] * (outs->shape[outs->rank - 1] + 1);
  const int64_t rows_per_task = std::max<int64_t>(1, task_floats / floats_per_row);
  const int workers = workers_for(*context, cycles_per_float * static_cast<double>(rows * floats_per_row));
  run_tasks(*context, workers, ceil_div(rows, rows_per_task), [&](int, int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) {
      context->kernels->rowwise->merge_row(row_of(*outs, *lses, *out, log_sum_exp, row));
    }
  });
  return FOVEA_OK;
}

}  // namespace fovea
