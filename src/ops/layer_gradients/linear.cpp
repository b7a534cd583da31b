// What the loss changes by for each element of x W + bias, and then products. Where there is neither an activation nor
// a multiplier, that is what it changes by for each element of out.
#include "ops/layer_gradients/linear.hpp"

#include "ops/layer_gradients/check.hpp"
#include "ops/layer_gradients/elements.hpp"
#include "ops/layer_gradients/projection.hpp"
#include "ops/products/matmul.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

// x W + bias, as floats. vector: room for a bias that is not contiguous.
Status project(const Context &context, const LinearGradientOperands &given, const fovea_tensor &weight, float *vector,
               const fovea_tensor &out) {
  fovea_gemm_options options = {};
  options.struct_size = sizeof options;
  fovea_tensor bias;
  if (given.bias != nullptr) {
    gather_floats(*context.kernels, *given.bias, vector);
    bias = contiguous_tensor(vector, FOVEA_F32, 1, given.bias->shape);
    options.c = &bias;
  }
  const fovea_tensor b = transposed(weight);
  return gemm(&context, given.x, &b, &out, &options);
}

Status run(const Context &context, const LinearGradientOperands &given, bool lies_in_out, Activation activation) {
  if (!wants_any({given.grad_x, given.grad_weight, given.grad_bias, given.grad_multiplier})) return FOVEA_OK;
  const fovea_tensor weight = lies_in_out ? transposed(*given.weight) : *given.weight;  // [N,K]
  const bool projects = activation != Activation::none || given.grad_multiplier != nullptr;
  const bool changes = activation != Activation::none || given.multiplier != nullptr;
  MemoryLayout layout;
  fovea_tensor h = *given.grad_out;
  const auto rows = changes
                        ? layout.add<float>({h.rank == 3 ? h.shape[0] : 1, h.shape[h.rank - 2], h.shape[h.rank - 1]})
                        : MemoryPart<float>();
  const auto vector = layout.add<float>(projects && given.bias != nullptr ? weight.shape[0] : 0);
  if (!layout.fits()) return too_large_for_sums("x");
  const Workspace workspace(context, layout);
  FOVEA_CHECK(workspace.status());
  if (changes && element_count(h) > 0) {
    h = contiguous_tensor(rows.in(workspace.data()), FOVEA_F32, h.rank, h.shape);
    if (projects) FOVEA_CHECK(project(context, given, weight, vector.in(workspace.data()), h));
    const bool wants_h = wants_any({given.grad_x, given.grad_weight, given.grad_bias});
    run_activation_gradients(context, activation,
                             {.x = projects ? h : *given.grad_out,
                              .grad_out = *given.grad_out,
                              .multiplier = given.multiplier,
                              .grad_x = wants_h ? &h : nullptr,
                              .grad_multiplier = given.grad_multiplier});
  }
  if (given.grad_x != nullptr) FOVEA_CHECK(project_back(context, h, weight, false, *given.grad_x));
  if (given.grad_weight != nullptr) {
    FOVEA_CHECK(add_up_weight(context, h, *given.x, lies_in_out, *given.grad_weight));
  }
  return given.grad_bias == nullptr ? FOVEA_OK : add_up_bias(context, h, *given.grad_bias);
}

}  // namespace

Status linear_backward(const Context *given, const TensorArgument &x, const TensorArgument &weight, int32_t layout,
                       const fovea_linear_options *given_options, const fovea_linear_gradients *given_gradients) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  fovea_linear_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  fovea_linear_gradients gradients;
  FOVEA_CHECK(read_gradients(given_gradients, &gradients));
  const TensorArgument bias(options.bias), multiplier(options.multiplier), grad_out(gradients.out);
  const TensorArgument grad_x(gradients.x), grad_weight(gradients.weight), grad_bias(gradients.bias);
  const TensorArgument grad_multiplier(gradients.multiplier);
  const LinearGradientOperands operands = {x,      weight,      bias,      multiplier,     grad_out,
                                           grad_x, grad_weight, grad_bias, grad_multiplier};
  FOVEA_CHECK(check_linear_gradients(operands, layout, options));
  return run(*context, operands, layout == FOVEA_WEIGHT_IN_OUT, static_cast<Activation>(options.activation));
}

}  // namespace fovea
