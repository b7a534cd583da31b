#include "ops/products/linear.hpp"

#include "ops/products/check.hpp"
#include "ops/products/row_copies.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/workspace.hpp"

namespace fovea {

Product tensor_product(const Kernels &kernels, const ProductMatrix &matrix, const ProductTensors &tensors,
                       bool medium) {
  const fovea_tensor &x = tensors.x, &out = tensors.out;
  const auto axis = [&](int from_last) -> RowAxis {
    const auto stride = [&](const fovea_tensor *tensor) {
      return tensor == nullptr || tensor->rank < from_last ? 0 : tensor->strides[tensor->rank - from_last];
    };
    const int64_t size = out.rank < from_last ? 1 : out.shape[out.rank - from_last];
    return {size, stride(&x), stride(&out), stride(tensors.residual), stride(tensors.multiplier)};
  };
  const int last = x.rank - 1;
  const auto type = [](const fovea_tensor &tensor) { return static_cast<Dtype>(tensor.dtype); };
  Product product = {.kernels = &product_kernels(kernels, type(x), matrix.panel_dtype(), medium),
                     .matrix = matrix,
                     .types = {.x = type(x), .out = type(out)}};
  if (tensors.multiplier != nullptr) product.types.multiplier = type(*tensors.multiplier);
  if (tensors.residual != nullptr) product.types.residual = type(*tensors.residual);
  product.x_column_stride = x.shape[last] == 1 ? 1 : x.strides[last];
  set_rows({axis(3), axis(2)}, &product);
  return product;
}

Product packed_product(const fovea_packed_matrix &matrix, const ProductTensors &tensors, bool medium) {
  const ProductMatrix sizes = {.columns = matrix.columns, .depth = matrix.depth, .dtype = matrix.dtype};
  return tensor_product(*matrix.kernels, sizes, tensors, medium);
}

Status linear_pack(const Context *given, const TensorArgument &weight, const fovea_linear_pack_options *given_options,
                   fovea_packed_matrix **packed) {
  fovea_linear_pack_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  FOVEA_CHECK(check_linear_pack_options(options));
  return pack_matrix(given, {weight, "weight", options.layout == FOVEA_WEIGHT_OUT_IN, options.precision}, packed);
}

Status linear(const Context *given, const TensorArgument &x, const fovea_packed_matrix *weight,
              const TensorArgument &out, const fovea_linear_options *given_options) {
  const Context *context = nullptr;
  fovea_linear_options options;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_packed_product(*context, linear_names, x, weight, out));
  FOVEA_CHECK(read_options("options", given_options, &options));
  const TensorArgument bias(options.bias), multiplier(options.multiplier), residual(options.residual);
  options.bias = bias;
  options.multiplier = multiplier;
  options.residual = residual;
  FOVEA_CHECK(check_linear_options(options, *out));
  if (element_count(*out) == 0) return FOVEA_OK;
  const int32_t precision = options.precision;
  const bool medium = precision == FOVEA_PRECISION_DEFAULT ? weight->medium : narrows_products(*context, precision);
  Product product = packed_product(*weight, {*x, *out, multiplier, residual}, medium);
  if (bias != nullptr) product.types.bias = static_cast<Dtype>(bias->dtype);
  ProductData data = {.x = x->data,
                      .panels = weight->panels,
                      .out = out->data,
                      .activation = static_cast<Activation>(options.activation),
                      .multiplier = multiplier == nullptr ? nullptr : multiplier->data,
                      .residual = residual == nullptr ? nullptr : residual->data};
  const bool strided = bias != nullptr && bias->shape[0] > 1 && bias->strides[0] != 1;
  MemoryLayout layout;
  const auto contiguous = layout.add<float>(strided ? bias->shape[0] : 0);
  const auto copies = layout.add<float>(row_copy_words(product));
  if (!layout.fits()) return fail(FOVEA_SIZE_OVERFLOW, "x's rows are too large to copy");
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  float *gathered = contiguous.in(workspace.data());
  if (strided) gather(*bias, gathered);
  if (bias != nullptr) data.bias = strided ? gathered : bias->data;
  data.copies = copies.in(workspace.data());
  run_product(*context, product, data);
  return FOVEA_OK;
}

}  // namespace fovea
