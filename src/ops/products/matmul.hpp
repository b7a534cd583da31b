// Matrix product: out = a b, with b packed on the way or before; and out = alpha a b + beta c.
#pragma once

#include <memory>

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"
#include "types.hpp"

// A right-hand side in panels: panel p holds columns [p * panel_columns, ...), all of k, the missing columns zero.
struct fovea_packed_matrix {
  const fovea::Kernels *kernels;
  int64_t depth;
  int64_t columns;
  fovea::Dtype dtype;  // of its elements in the panels
  bool medium;         // packed for it: rows of float32 may be rounded to bfloat16
  size_t size;
  void *memory;
  float *panels;  // in it

  fovea_packed_matrix() = default;
  fovea_packed_matrix(const fovea_packed_matrix &) = delete;
  fovea_packed_matrix &operator=(const fovea_packed_matrix &) = delete;
  ~fovea_packed_matrix();
};

namespace fovea {

[[nodiscard]] Status matmul(const Context *given, const TensorArgument &a, const TensorArgument &b,
                            const TensorArgument &out);
[[nodiscard]] Status gemm(const Context *given, const TensorArgument &a, const TensorArgument &b,
                          const TensorArgument &out, const fovea_gemm_options *given_options);

struct MatrixToPack {
  const fovea_tensor *matrix;
  const char *name;
  bool transposed;
  int32_t precision;  // FOVEA_PRECISION_*
};

[[nodiscard]] Status pack_matrix(const Context *given, const MatrixToPack &from, fovea_packed_matrix **packed);
[[nodiscard]] Status matmul_pack(const Context *given, const TensorArgument &b,
                                 const fovea_matmul_pack_options *given_options, fovea_packed_matrix **packed);
[[nodiscard]] Status matmul_packed(const Context *given, const TensorArgument &a, const fovea_packed_matrix *b,
                                   const TensorArgument &out);

}  // namespace fovea
