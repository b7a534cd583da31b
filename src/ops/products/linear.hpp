// The product of rows with a packed matrix and what comes right after it: bias, activation, multiplier, residual.
//   out[b][m][n] = activation(sum_k x[b][m][k] w[k][n] + bias[n]) multiplier[b][m][n] + residual[b][m][n]
#pragma once

#include "ops/products/matmul.hpp"
#include "ops/products/product.hpp"
#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

// Tensors of a product that are known to fit, from TensorArguments. multiplier and residual may be null.
struct ProductTensors {
  const fovea_tensor &x, &out;
  const fovea_tensor *multiplier = nullptr, *residual = nullptr;
};

// `medium` as in product_kernels.
Product tensor_product(const Kernels &kernels, const ProductMatrix &matrix, const ProductTensors &tensors, bool medium);
Product packed_product(const fovea_packed_matrix &matrix, const ProductTensors &tensors, bool medium);

[[nodiscard]] Status linear_pack(const Context *given, const TensorArgument &weight,
                                 const fovea_linear_pack_options *given_options, fovea_packed_matrix **packed);
[[nodiscard]] Status linear(const Context *given, const TensorArgument &x, const fovea_packed_matrix *weight,
                            const TensorArgument &out, const fovea_linear_options *options);

}  // namespace fovea
