#include "ops/products/linear.hpp"

#include <algorithm>

#include "ops/tensors/check.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

Status check_options(const fovea_linear_options &options, const fovea_tensor &out) {
  if (options.activation < FOVEA_ACTIVATION_NONE || options.activation > FOVEA_ACTIVATION_SILU) {
    return fail(FOVEA_BAD_VALUE, "options.activation is %d, expected %d to %d (FOVEA_ACTIVATION_*)", options.activation,
                FOVEA_ACTIVATION_NONE, FOVEA_ACTIVATION_SILU);
  }
  if (options.reserved != 0) return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", options.reserved);
  if (options.bias != nullptr) {
    const TensorRule rule = {.name = "bias", .max_rank = 1, .contiguous_last = false};
    FOVEA_CHECK(check_tensor(options.bias, rule));
    FOVEA_CHECK(check_size(*options.bias, "bias", 0, out.shape[out.rank - 1], "weight's outputs"));
  }
  FOVEA_CHECK(check_overlaps({{"out", &out}}, {{"bias", options.bias}}));
  if (options.residual == nullptr) return FOVEA_OK;
  const TensorRule rule = {.name = "residual", .min_rank = out.rank, .max_rank = out.rank};
  FOVEA_CHECK(check_tensor(options.residual, rule));
  for (int axis = 0; axis < out.rank; ++axis) {
    FOVEA_CHECK(check_size(*options.residual, "residual", axis, out.shape[axis], "out's shape"));
  }
  const fovea_tensor *other = same_memory(*options.residual, out) ? nullptr : options.residual;
  return check_overlaps({{"out", &out}}, {{"residual", other}});
}

const float *gather_bias(const fovea_tensor &bias, float *to) {
  const auto *from = static_cast<const float *>(bias.data);
  for (int64_t i = 0; i < bias.shape[0]; ++i) to[i] = from[i * bias.strides[0]];
  return to;
}

}  // namespace

Product tensor_product(const MatmulKernels &kernels, const ProductMatrix &matrix, const fovea_tensor &x,
                       const fovea_tensor &out, const fovea_tensor *residual) {
  const auto axis = [&](int from_last) -> RowAxis {
    const auto stride = [&](const fovea_tensor &tensor) {
      return tensor.rank < from_last ? 0 : tensor.strides[tensor.rank - from_last];
    };
    const int64_t size = out.rank < from_last ? 1 : out.shape[out.rank - from_last];
    return {size, stride(x), stride(out), residual == nullptr ? 0 : stride(*residual)};
  };
  const int last = x.rank - 1;
  Product product = {.kernels = &kernels, .matrix = matrix};
  product.x_column_stride = x.shape[last] == 1 ? 1 : x.strides[last];
  set_rows({axis(3), axis(2)}, &product);
  return product;
}

Product packed_product(const fovea_packed_matrix &matrix, const fovea_tensor &x, const fovea_tensor &out,
                       const fovea_tensor *residual) {
  return tensor_product(*matrix.kernels->matmul, {.columns = matrix.columns, .depth = matrix.depth}, x, out, residual);
}

Status check_rows(const ProductNames &names, const fovea_tensor *x, const fovea_tensor *out) {
  const TensorRule x_rule = {.name = names.x, .min_rank = 2, .max_rank = 3, .contiguous_last = false};
  const TensorRule out_rule = {.name = "out", .min_rank = 2, .max_rank = 3, .output = true};
  FOVEA_CHECK(check_tensor(x, x_rule));
  FOVEA_CHECK(check_tensor(out, out_rule));
  return check_size(*out, "out", out->rank - 2, x->shape[x->rank - 2], names.x_rows);
}

Status check_packed_product(const Context &context, const ProductNames &names, const fovea_tensor *x,
                            const fovea_packed_matrix *weight, const fovea_tensor *out) {
  if (weight == nullptr) return fail(FOVEA_NULL_POINTER, "%s is NULL, expected a packed matrix", names.weight);
  FOVEA_CHECK(check_rows(names, x, out));
  if (out->rank == 2 && x->rank == 3) return fail(FOVEA_BAD_RANK, "out has rank 2, expected 3 like %s", names.x);
  const int64_t batch = out->rank == 3 ? out->shape[0] : 1;
  if (x->rank == 3) {
    FOVEA_CHECK(check_size(*x, names.x, 0, batch, "out's batch size"));
  }
  FOVEA_CHECK(check_size(*x, names.x, x->rank - 1, weight->depth, names.inputs));
  FOVEA_CHECK(check_size(*out, "out", out->rank - 1, weight->columns, names.outputs));
  FOVEA_CHECK(check_overlaps({{"out", out}}, {{names.x, x}}));
  if (weight->kernels == context.kernels) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s was packed for %s, expected %s, the context's instruction set", names.weight,
              weight->kernels->name, context.kernels->name);
}

Status linear_pack(const Context *given, const TensorArgument &weight, const fovea_linear_pack_options *given_options,
                   fovea_packed_matrix **packed) {
  fovea_linear_pack_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  if (options.layout != FOVEA_WEIGHT_OUT_IN && options.layout != FOVEA_WEIGHT_IN_OUT) {
    return fail(FOVEA_BAD_VALUE, "options.layout is %d, expected %d (OUT_IN) or %d (IN_OUT)", options.layout,
                FOVEA_WEIGHT_OUT_IN, FOVEA_WEIGHT_IN_OUT);
  }
  FOVEA_CHECK(check_reserved(options.reserved));
  return pack_matrix(given, {weight, "weight", options.layout == FOVEA_WEIGHT_OUT_IN}, packed);
}

Status linear(const Context *given, const TensorArgument &x, const fovea_packed_matrix *weight,
              const TensorArgument &out, const fovea_linear_options *given_options) {
  constexpr ProductNames names = {"x", "x's rows", "weight", "weight's inputs", "weight's outputs"};
  const Context *context = nullptr;
  fovea_linear_options options;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_packed_product(*context, names, x, weight, out));
  FOVEA_CHECK(read_options("options", given_options, &options));
  const TensorArgument bias(options.bias), residual(options.residual);
  options.bias = bias;
  options.residual = residual;
  FOVEA_CHECK(check_options(options, *out));
  if (element_count(*out) == 0) return FOVEA_OK;
  const Product product = packed_product(*weight, *x, *out, residual);
  ProductData data = {.x = static_cast<const float *>(x->data),
                      .panels = weight->panels,
                      .out = static_cast<float *>(out->data),
                      .activation = static_cast<Activation>(options.activation),
                      .residual = residual == nullptr ? nullptr : static_cast<const float *>(residual->data)};
  const bool strided = bias != nullptr && bias->shape[0] > 1 && bias->strides[0] != 1;
  MemoryLayout layout;
  const auto contiguous = layout.add<float>(strided ? bias->shape[0] : 0);
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  if (bias != nullptr) {
    data.bias = strided ? gather_bias(*bias, contiguous.in(workspace.data())) : static_cast<const float *>(bias->data);
  }
  run_product(*context, product, data);
  return FOVEA_OK;
}

}  // namespace fovea
