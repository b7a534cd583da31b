// What goes back through rows that a weight projects, y = W x + bias with W [N,K]: of the change h of the loss by each
// element of y
//
//   x: h W      W: sum over rows of h^T x      bias: sum over rows of h
//
// The first two are products of matrices as others are. Rows are [B,M,...], or [M,...].
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

// A matrix with its axes the other way round.
fovea_tensor transposed(const fovea_tensor &matrix);

// out = left^T right, summed over batch entries: left [B,M,P], right [B,M,N], out [P,N], last axis contiguous.
[[nodiscard]] Status sum_products(const Context &context, const fovea_tensor &left, const fovea_tensor &right,
                                  const fovea_tensor &out);

// The gradient of W, [N,K], or [K,N] if it lies so; its last axis is contiguous.
[[nodiscard]] Status add_up_weight(const Context &context, const fovea_tensor &h, const fovea_tensor &x,
                                   bool lies_in_out, const fovea_tensor &out);

// The gradient of x, added to what is there or instead of it. weight: [N,K], any strides.
[[nodiscard]] Status project_back(const Context &context, const fovea_tensor &h, const fovea_tensor &weight, bool add,
                                  const fovea_tensor &out);

// The gradient of the bias, a vector of any stride.
[[nodiscard]] Status add_up_bias(const Context &context, const fovea_tensor &h, const fovea_tensor &out);

}  // namespace fovea
