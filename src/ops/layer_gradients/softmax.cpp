// Over the last axis rows are independent, over another one columns, as in the forward pass.
#include <algorithm>

#include "ops/layer_gradients/check.hpp"
#include "ops/layer_gradients/elements.hpp"
#include "ops/layer_gradients/rows.hpp"
#include "ops/rowwise/valid_len.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 32768;  // 384 kB read and written: stays in a core's L2
constexpr int64_t most_rows_per_task = 128;
constexpr double cycles_per_element = 2.0;

enum Operand { out_rows, grad_out_rows, grad_x_rows, operands };

struct Call {
  const Context &context;
  const fovea_tensor *tensors[operands];
  const fovea_tensor *valid_lens;  // null: all keys
  bool log;

  const fovea_tensor &out() const { return *tensors[out_rows]; }
  Dtype type(Operand operand) const { return static_cast<Dtype>(tensors[operand]->dtype); }
  void *at(Operand operand, int64_t offset) const { return element_at(tensors[operand]->data, type(operand), offset); }
  SoftmaxGradientTypes types() const { return {type(out_rows), type(grad_out_rows), type(grad_x_rows)}; }
};

void run_rows(const Call &call) {
  const int64_t key_len = call.out().shape[call.out().rank - 1];
  const auto rows = ManyRows<operands>::of(call.tensors);
  const int64_t rows_per_task = std::clamp<int64_t>(task_floats / key_len, 1, most_rows_per_task);
  const int workers = workers_for(call.context, cycles_per_element * static_cast<double>(rows.count * key_len));
  run_tasks(call.context, workers, ceil_div(rows.count, rows_per_task), [&](int, int64_t task) {
    SoftmaxGradientRow list[most_rows_per_task];
    const int64_t count = std::min(rows_per_task, rows.count - task * rows_per_task);
    ManyRowsCursor<operands> row(rows, task * rows_per_task);
    for (int64_t i = 0; i < count; ++i, row.next()) {
      const auto at = [&](Operand operand) { return call.at(operand, row.offset(operand)); };
      list[i] = {.out = at(out_rows),
                 .grad_out = at(grad_out_rows),
                 .grad_x = at(grad_x_rows),
                 .valid_len = valid_len_of(call.valid_lens, row, rows.axes, key_len)};
    }
    call.context.kernels->rowwise->softmax_gradient_rows(
        {.row = list, .types = call.types(), .count = count, .key_len = key_len, .log = call.log});
  });
}

void run_columns(const Call &call, int axis) {
  int first = 0;
  const int64_t run = joined_run(call.tensors, axis + 1, &first);
  ManyRows<operands> outer;
  for (int other = 0; other < first; ++other) {
    if (other != axis) outer.add_axis(call.tensors, other);
  }
  const int64_t key_len = call.out().shape[axis], blocks = ceil_div(run, softmax_gradient_columns);
  const int workers = workers_for(call.context, cycles_per_element * static_cast<double>(outer.count * run * key_len));
  run_tasks(call.context, workers, outer.count * blocks, [&](int, int64_t task) {
    const ManyRowsCursor<operands> row(outer, task / blocks);
    const int64_t column = task % blocks * softmax_gradient_columns;
    const auto at = [&](Operand operand) { return call.at(operand, row.offset(operand) + column); };
    const auto stride = [&](Operand operand) { return call.tensors[operand]->strides[axis]; };
    call.context.kernels->rowwise->softmax_gradient_columns(
        {.out = at(out_rows),
         .grad_out = at(grad_out_rows),
         .grad_x = at(grad_x_rows),
         .types = call.types(),
         .out_stride = stride(out_rows),
         .grad_out_stride = stride(grad_out_rows),
         .grad_x_stride = stride(grad_x_rows),
         .key_len = key_len,
         .columns = std::min(run - column, softmax_gradient_columns),
         .log = call.log});
  });
}

}  // namespace

Status masked_softmax_backward(const Context *given, const TensorArgument &out, const TensorArgument &valid_lens,
                               const TensorArgument &grad_out, const TensorArgument &grad_x) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_softmax_gradients({"out", "out's size", out, grad_out, grad_x}, valid_lens));
  if (element_count(*out) == 0) return FOVEA_OK;
  run_rows({*context, {out, grad_out, grad_x}, valid_lens, false});
  return FOVEA_OK;
}

Status softmax_backward(const Context *given, const TensorArgument &out, int32_t axis, const TensorArgument &grad_out,
                        const TensorArgument &grad_x, bool log) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_softmax_gradients_over({"out", "out's size", out, grad_out, grad_x}, axis));
  if (element_count(*out) == 0) return FOVEA_OK;
  const Call call = {*context, {out, grad_out, grad_x}, nullptr, log};
  const int from_first = axis < 0 ? out->rank + axis : axis;
  from_first == out->rank - 1 ? run_rows(call) : run_columns(call, from_first);
  return FOVEA_OK;
}

}  // namespace fovea
