// Rows are independent but for the sums that weight's and bias's gradients are.
#include "ops/layer_gradients/norm.hpp"

#include "ops/layer_gradients/check.hpp"
#include "ops/layer_gradients/row_sums.hpp"
#include "ops/layer_gradients/rows.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

constexpr double cycles_per_element = 3.0;
constexpr int64_t cached_bytes = 16 << 20;  // x and the gradients of this size are thought to lie in memory

enum Operand { x_rows, residual_rows, grad_out_rows, grad_sum_rows, grad_x_rows, operands };

Status run(const Context &context, const NormGradientOperands &given, const NormSettings &settings) {
  const int64_t dim = given.x->shape[given.x->rank - 1];
  const fovea_tensor *tensors[operands] = {given.x, given.residual, given.grad_out, given.grad_sum, given.grad_x};
  const auto rows = ManyRows<operands>::of(tensors);
  const int64_t weight_sums = given.grad_weight == nullptr ? 0 : dim;
  const int64_t bias_sums = given.grad_bias == nullptr ? 0 : dim;
  MemoryLayout layout;
  const RowSums sums(rows.count, dim, weight_sums + bias_sums, &layout);
  if (!layout.fits()) return too_large_for_sums("x");
  const Workspace workspace(context, layout);
  FOVEA_CHECK(workspace.status());
  const auto type = [&](const fovea_tensor *tensor) {
    return tensor == nullptr ? Dtype::f32 : static_cast<Dtype>(tensor->dtype);
  };
  int64_t bytes = 0;
  for (const fovea_tensor *tensor : tensors) {
    if (tensor != nullptr) bytes += rows.count * dim * bytes_of(type(tensor));
  }
  const NormGradientRows all = {.row = nullptr,
                                .count = 0,
                                .dim = dim,
                                .weight = given.weight == nullptr ? nullptr : given.weight->data,
                                .types = {.x = type(given.x),
                                          .residual = type(given.residual),
                                          .grad_out = type(given.grad_out),
                                          .grad_sum = type(given.grad_sum),
                                          .grad_x = type(given.grad_x),
                                          .weight = type(given.weight)},
                                .epsilon = settings.epsilon,
                                .kind = settings.kind,
                                .weight_raise = settings.weight_raise,
                                .from_memory = bytes >= cached_bytes,
                                .weight_sums = nullptr,
                                .bias_sums = nullptr};
  const RowwiseKernels &kernels = *context.kernels->rowwise;
  const auto add = [&](int64_t first, int64_t count, float *floats) {
    NormGradientRow list[RowSums::most_rows];
    NormGradientRows some = all;
    some.row = list;
    some.count = count;
    some.weight_sums = weight_sums == 0 ? nullptr : floats;
    some.bias_sums = bias_sums == 0 ? nullptr : floats + weight_sums;
    ManyRowsCursor<operands> row(rows, first);
    for (int64_t i = 0; i < count; ++i, row.next()) {
      const auto at = [&](Operand operand) -> void * {
        const fovea_tensor *tensor = tensors[operand];
        return tensor == nullptr ? nullptr : element_at(tensor->data, type(tensor), row.offset(operand));
      };
      list[i] = {at(x_rows), at(residual_rows), at(grad_out_rows), at(grad_sum_rows), at(grad_x_rows)};
    }
    kernels.norm_gradient_rows(some);
  };
  const int workers = workers_for(context, cycles_per_element * static_cast<double>(rows.count * dim));
  run_tasks(context, workers, sums.tasks(), [&](int, int64_t task) { sums.run(task, workspace.data(), add); });
  if (weight_sums > 0) sums.store(kernels, workspace.data(), 0, *given.grad_weight);
  if (bias_sums > 0) sums.store(kernels, workspace.data(), weight_sums, *given.grad_bias);
  return FOVEA_OK;
}

Status norm_backward(const Context &context, const NormOperands &forward, const fovea_norm_gradients *given,
                     const NormSettings &settings) {
  fovea_norm_gradients gradients;
  FOVEA_CHECK(read_gradients(given, &gradients));
  const TensorArgument grad_out(gradients.out), grad_sum(gradients.sum), grad_x(gradients.x);
  const TensorArgument grad_weight(gradients.weight), grad_bias(gradients.bias);
  const NormGradientOperands operands = {forward.x, forward.weight, forward.bias, forward.residual, grad_out,
                                         grad_sum,  grad_x,         grad_weight,  grad_bias};
  FOVEA_CHECK(check_norm_gradients(operands, settings.kind));
  if (!wants_any({grad_x, grad_weight, grad_bias})) return FOVEA_OK;
  return run(context, operands, settings);
}

}  // namespace

Status layer_norm_backward(const Context *given, const TensorArgument &x, const fovea_layer_norm_options *given_options,
                           const fovea_norm_gradients *gradients) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  fovea_layer_norm_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  NormSettings settings;
  FOVEA_CHECK(check_norm_options(options, &settings));
  const TensorArgument weight(options.weight), bias(options.bias), residual(options.residual);
  return norm_backward(*context, {x, weight, bias, residual, nullptr, nullptr, nullptr, nullptr}, gradients, settings);
}

Status rms_norm_backward(const Context *given, const TensorArgument &x, const fovea_rms_norm_options *given_options,
                         const fovea_norm_gradients *gradients) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  fovea_rms_norm_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  NormSettings settings;
  FOVEA_CHECK(check_norm_options(options, &settings));
  const TensorArgument weight(options.weight), residual(options.residual);
  return norm_backward(*context, {x, weight, nullptr, residual, nullptr, nullptr, nullptr, nullptr}, gradients,
                       settings);
}

}  // namespace fovea
