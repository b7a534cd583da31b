// The product of rows with a packed matrix and what comes right after it: bias, activation, residual.
//   out[b][m][n] = activation(sum_k x[b][m][k] w[k][n] + bias[n]) + residual[b][m][n]
#pragma once

#include "ops/products/matmul.hpp"
#include "ops/products/product.hpp"
#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

// A product of tensors that are known to fit, from TensorArguments. residual may be null. `medium` as in product_kernels.
Product tensor_product(const Kernels &kernels, const ProductMatrix &matrix, const fovea_tensor &x,
                       const fovea_tensor &out, const fovea_tensor *residual, bool medium);
Product packed_product(const fovea_packed_matrix &matrix, const fovea_tensor &x, const fovea_tensor &out,
                       const fovea_tensor *residual, bool medium);

[[nodiscard]] Status linear_pack(const Context *given, const TensorArgument &weight,
                                 const fovea_linear_pack_options *given_options, fovea_packed_matrix **packed);
[[nodiscard]] Status linear(const Context *given, const TensorArgument &x, const fovea_packed_matrix *weight,
                            const TensorArgument &out, const fovea_linear_options *options);

}  // namespace fovea
