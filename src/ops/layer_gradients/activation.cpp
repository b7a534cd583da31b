// Axes that lie one after the other in all tensors are joined; the elements, in row-major order, are cut into pieces of
// one size.
#include <algorithm>

#include "ops/layer_gradients/check.hpp"
#include "ops/layer_gradients/elements.hpp"
#include "ops/layer_gradients/rows.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 16384;  // 192 kB in and out: stays in a core's L2
constexpr double cycles_per_element = 3.0;

enum Operand { x_run, grad_out_run, multiplier_run, grad_x_run, grad_multiplier_run, operands };

}  // namespace

void run_activation_gradients(const Context &context, Activation kind, const ActivationTensors &given) {
  const fovea_tensor *tensors[operands] = {&given.x, &given.grad_out, given.multiplier, given.grad_x,
                                           given.grad_multiplier};
  int outer = 0;
  const int64_t run = joined_run(tensors, 0, &outer);
  ManyRows<operands> rows;
  for (int axis = 0; axis < outer; ++axis) rows.add_axis(tensors, axis);
  const auto type = [&](Operand operand) {
    return tensors[operand] == nullptr ? Dtype::f32 : static_cast<Dtype>(tensors[operand]->dtype);
  };
  const int64_t elements = rows.count * run;
  const int workers = workers_for(context, cycles_per_element * static_cast<double>(elements));
  run_tasks(context, workers, ceil_div(elements, task_floats), [&](int, int64_t task) {
    int64_t left = std::min(task_floats, elements - task * task_floats);
    int64_t column = task * task_floats % run;
    for (ManyRowsCursor<operands> row(rows, task * task_floats / run); left > 0; row.next()) {
      const int64_t count = std::min(left, run - column);
      const auto at = [&](Operand operand) -> void * {
        if (tensors[operand] == nullptr) return nullptr;
        return element_at(tensors[operand]->data, type(operand), row.offset(operand) + column);
      };
      context.kernels->rowwise->activation_gradients({.kind = kind,
                                                      .x = at(x_run),
                                                      .grad_out = at(grad_out_run),
                                                      .multiplier = at(multiplier_run),
                                                      .grad_x = at(grad_x_run),
                                                      .grad_multiplier = at(grad_multiplier_run),
                                                      .types = {.x = type(x_run),
                                                                .grad_out = type(grad_out_run),
                                                                .multiplier = type(multiplier_run),
                                                                .grad_x = type(grad_x_run),
                                                                .grad_multiplier = type(grad_multiplier_run)},
                                                      .count = count});
      left -= count;
      column = 0;
    }
  });
}

Status activation_backward(const Context *given, int32_t activation, const TensorArgument &x,
                           const TensorArgument &grad_out, const TensorArgument &grad_x) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_activation(activation));
  FOVEA_CHECK(check_element_gradients({"x", "x's size", x, grad_out, grad_x}));
  if (element_count(*x) == 0) return FOVEA_OK;
  run_activation_gradients(*context, static_cast<Activation>(activation), {*x, *grad_out, nullptr, grad_x, nullptr});
  return FOVEA_OK;
}

}  // namespace fovea
