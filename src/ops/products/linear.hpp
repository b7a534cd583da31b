// The product of rows with a packed matrix and what comes right after it: bias, activation, residual.
//   out[b][m][n] = activation(sum_k x[b][m][k] w[k][n] + bias[n]) + residual[b][m][n]
// fovea_matmul_packed, fovea_linear and the projections of multi-head attention are this.
#pragma once

#include "kernels/products/matmul_problem.hpp"
#include "ops/products/matmul.hpp"
#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

struct LinearProduct {
  int64_t batch, rows, depth, columns;
  const float *x;
  int64_t x_batch_stride, x_row_stride, x_column_stride;
  const float *panels = nullptr;  // as fovea_packed_matrix has them
  const float *bias = nullptr;    // [columns]; null: none
  Activation activation = Activation::none;
  const float *residual = nullptr;  // null: none; may be out
  int64_t residual_batch_stride = 0, residual_row_stride = 0;
  float *out;
  int64_t out_batch_stride, out_row_stride;
  int64_t panels_batch_stride = 0;  // 0: one matrix for all
};

// Neither fails nor allocates. Batch entries that follow each other evenly on all sides are taken together.
void run_linear(const Context &context, const LinearProduct &given);

// A product of tensors that are known to fit, from TensorArguments; panels, bias and what follows are still to come.
LinearProduct make_product(const fovea_tensor &x, const fovea_tensor &out);

// What a call's operands are named in messages.
struct ProductNames {
  const char *x, *x_rows;
  const char *weight, *inputs, *outputs;
};

[[nodiscard]] Status check_rows(const ProductNames &names, const fovea_tensor *x, const fovea_tensor *out);
[[nodiscard]] Status check_packed_product(const Context &context, const ProductNames &names, const fovea_tensor *x,
                                          const fovea_packed_matrix *weight, const fovea_tensor *out);

[[nodiscard]] Status linear_pack(const Context *given, const TensorArgument &weight,
                                 const fovea_linear_pack_options *given_options, fovea_packed_matrix **packed);
[[nodiscard]] Status linear(const Context *given, const TensorArgument &x, const fovea_packed_matrix *weight,
                            const TensorArgument &out, const fovea_linear_options *options);

}  // namespace fovea
