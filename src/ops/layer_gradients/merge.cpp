// A task is a few rows, each over all its parts.
#include "ops/layer_gradients/merge.hpp"

#include <algorithm>

#include "ops/layer_gradients/check.hpp"
#include "ops/layer_gradients/rows.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 16384;  // of parts
constexpr double cycles_per_float = 2.0;

enum Operand { outs_rows, lses_rows, grad_out_rows, grad_log_sum_exp_rows, grad_outs_rows, grad_lses_rows, operands };

// The tensor without its first axis, that of parts, if it has that.
fovea_tensor of_one_part(const fovea_tensor *tensor, bool has_parts) {
  fovea_tensor part = *tensor;
  if (!has_parts) return part;
  --part.rank;
  for (int axis = 0; axis < part.rank; ++axis) {
    part.shape[axis] = tensor->shape[axis + 1];
    part.strides[axis] = tensor->strides[axis + 1];
  }
  return part;
}

}  // namespace

Status merge_states_backward(const Context *given, const TensorArgument &outs, const TensorArgument &lses,
                             const fovea_merge_gradients *given_gradients) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  fovea_merge_gradients gradients;
  FOVEA_CHECK(read_gradients(given_gradients, &gradients));
  const TensorArgument grad_out(gradients.out), grad_log_sum_exp(gradients.log_sum_exp);
  const TensorArgument grad_outs(gradients.outs), grad_lses(gradients.lses);
  FOVEA_CHECK(check_merge_gradients({outs, lses, grad_out, grad_log_sum_exp, grad_outs, grad_lses}));
  if (!wants_any({grad_outs, grad_lses})) return FOVEA_OK;

  const fovea_tensor *all[operands] = {outs, lses, grad_out, grad_log_sum_exp, grad_outs, grad_lses};
  constexpr bool has_parts[operands] = {true, true, false, false, true, true};
  fovea_tensor parts[operands];
  const fovea_tensor *tensors[operands] = {};
  for (int n = 0; n < operands; ++n) {
    if (all[n] == nullptr) continue;
    parts[n] = of_one_part(all[n], has_parts[n]);
    tensors[n] = &parts[n];
  }
  const auto rows = ManyRows<operands>::of(tensors);
  const int64_t part_count = outs->shape[0], value_dim = outs->shape[outs->rank - 1];
  const auto type = [&](Operand operand) {
    return tensors[operand] == nullptr ? Dtype::f32 : static_cast<Dtype>(tensors[operand]->dtype);
  };
  const auto part_stride = [&](Operand operand) { return all[operand] == nullptr ? 0 : all[operand]->strides[0]; };
  const int64_t row_floats = part_count * (value_dim + 1);
  const int64_t rows_per_task = std::max<int64_t>(1, task_floats / row_floats);
  const int workers = workers_for(*context, cycles_per_float * static_cast<double>(rows.count * row_floats));
  run_tasks(*context, workers, ceil_div(rows.count, rows_per_task), [&](int, int64_t task) {
    const int64_t first = task * rows_per_task, count = std::min(rows_per_task, rows.count - first);
    ManyRowsCursor<operands> row(rows, first);
    for (int64_t i = 0; i < count; ++i, row.next()) {
      const auto at = [&](Operand operand) -> void * {
        if (tensors[operand] == nullptr) return nullptr;
        return element_at(tensors[operand]->data, type(operand), row.offset(operand));
      };
      context->kernels->rowwise->merge_gradient_row(
          {.outs = at(outs_rows),
           .outs_type = type(outs_rows),
           .outs_stride = part_stride(outs_rows),
           .lses = static_cast<const float *>(at(lses_rows)),
           .lses_stride = part_stride(lses_rows),
           .grad_out = at(grad_out_rows),
           .grad_out_type = type(grad_out_rows),
           .grad_log_sum_exp = static_cast<const float *>(at(grad_log_sum_exp_rows)),
           .grad_outs = at(grad_outs_rows),
           .grad_outs_type = type(grad_outs_rows),
           .grad_outs_stride = part_stride(grad_outs_rows),
           .grad_lses = static_cast<float *>(at(grad_lses_rows)),
           .grad_lses_stride = part_stride(grad_lses_rows),
           .parts = part_count,
           .value_dim = value_dim});
    }
  });
  return FOVEA_OK;
}

}  // namespace fovea
