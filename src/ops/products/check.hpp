// The checks of matrix products and linear layers.
#pragma once

#include "ops/products/matmul.hpp"
#include "ops/tensors/check.hpp"

namespace fovea {

// What a call's operands are named in messages.
struct ProductNames {
  const char *x, *x_rows;
  const char *weight, *inputs, *outputs;
};

constexpr ProductNames matmul_names = {"a", "a's rows", "b", "b's rows", "b's columns"};
constexpr ProductNames linear_names = {"x", "x's rows", "weight", "weight's inputs", "weight's outputs"};

[[nodiscard]] Status check_matmul(const fovea_tensor *a, const fovea_tensor *b, const fovea_tensor *out);

// Puts the default in place of what is not given.
[[nodiscard]] Status check_gemm_options(fovea_gemm_options *options);
// options.c of a product with that output, which has been checked.
[[nodiscard]] Status check_added(const fovea_gemm_options &options, const fovea_tensor &out);

[[nodiscard]] Status check_packed_product(const Context &context, const ProductNames &names, const fovea_tensor *x,
                                          const fovea_packed_matrix *weight, const fovea_tensor *out);
[[nodiscard]] Status check_linear_pack_options(const fovea_linear_pack_options &options);

// Those of a product with that output.
[[nodiscard]] Status check_linear_options(const fovea_linear_options &options, const fovea_tensor &out);

}  // namespace fovea
