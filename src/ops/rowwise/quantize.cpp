// Walks the rows of numbers of 8 or 4 bits, of their scales and of what they stand for. A task takes whole rows.
#include "ops/rowwise/quantize.hpp"

#include <algorithm>

#include "ops/rowwise/check.hpp"
#include "ops/tensors/rows.hpp"
#include "ops/tensors/scaled.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_elements = 16384, rows_together = 32;

RowSpace rows_of(const fovea_tensor &a, const fovea_tensor &b) {
  RowSpace space;
  for (int axis = 0; axis + 1 < a.rank; ++axis) space.add_axis(a.shape[axis], a.strides[axis], b.strides[axis]);
  return space;
}

// kernel(rows) for all rows of three tensors that have been checked.
void for_all_rows(const Context &context, const fovea_tensor &numbers, const fovea_tensor &scales,
                  const fovea_tensor &floats, void (*kernel)(const ScaledRowList &rows)) {
  const int64_t dim = features_of(numbers);
  const int64_t groups = last_size(scales) / paired(numbers.dtype);
  const RowSpace rows = rows_of(numbers, floats), scale_rows = rows_of(scales, scales);
  const int64_t at_once = std::max<int64_t>(1, task_elements / dim);
  const auto dtype = static_cast<Dtype>(floats.dtype), numbers_dtype = static_cast<Dtype>(numbers.dtype);
  // Two cycles for each element.
  const int workers = workers_for(context, 2.0 * static_cast<double>(rows.count) * static_cast<double>(dim));
  run_tasks(context, workers, ceil_div(rows.count, at_once), [&](int, int64_t task) {
    RowCursor row(rows, task * at_once), its_scales(scale_rows, task * at_once);
    for (int64_t left = std::min(at_once, rows.count - task * at_once); left > 0;) {
      ScaledRow some[rows_together];
      const int64_t count = std::min(rows_together, left);
      for (ScaledRow *at = some; at < some + count; ++at, row.next(), its_scales.next()) {
        *at = {.numbers = element_at(numbers.data, numbers_dtype, row.x_offset()),
               .scales = static_cast<Float16 *>(scales.data) + its_scales.x_offset(),
               .floats = element_at(floats.data, dtype, row.out_offset())};
      }
      kernel({.row = some,
              .count = count,
              .numbers_dtype = numbers_dtype,
              .group = dim / groups,
              .groups = groups,
              .dtype = dtype});
      left -= count;
    }
  });
}

}  // namespace

Status quantize(const Context *given, const TensorArgument &x, const TensorArgument &out,
                const TensorArgument &scales) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_quantize(x, out, scales));
  if (element_count(*x) != 0) for_all_rows(*context, *out, *scales, *x, context->kernels->rowwise->quantize_rows);
  return FOVEA_OK;
}

Status dequantize(const Context *given, const TensorArgument &q, const TensorArgument &scales,
                  const TensorArgument &out) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_dequantize(q, scales, out));
  if (element_count(*q) != 0) for_all_rows(*context, *q, *scales, *out, context->kernels->rowwise->dequantize_rows);
  return FOVEA_OK;
}

}  // namespace fovea
