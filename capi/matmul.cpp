// The C functions of the matrix product.
#include "ops/products/matmul.hpp"

#include "guard.hpp"

using namespace fovea;

fovea_status fovea_matmul(const fovea_context *context, const fovea_tensor *a, const fovea_tensor *b,
                          const fovea_tensor *out) {
  return guarded([&] { return matmul(context, a, b, out); });
}

fovea_status fovea_gemm(const fovea_context *context, const fovea_tensor *a, const fovea_tensor *b,
                        const fovea_tensor *out, const fovea_gemm_options *options) {
  return guarded([&] { return gemm(context, a, b, out, options); });
}

fovea_status fovea_matmul_pack(const fovea_context *context, const fovea_tensor *b,
                               const fovea_matmul_pack_options *options, fovea_packed_matrix **packed) {
  return guarded([&] { return matmul_pack(context, b, options, packed); });
}

void fovea_packed_matrix_destroy(fovea_packed_matrix *packed) { delete packed; }

size_t fovea_packed_matrix_size(const fovea_packed_matrix *packed) { return packed == nullptr ? 0 : packed->size; }

fovea_status fovea_matmul_packed(const fovea_context *context, const fovea_tensor *a, const fovea_packed_matrix *b,
                                 const fovea_tensor *out) {
  return guarded([&] { return matmul_packed(context, a, b, out); });
}
