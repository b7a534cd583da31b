// Projects rows of a tensor by a weight matrix, into scratch memory, as a score function with parameters does with
// queries and keys.
//   out[row][unit] = sum_d x[row][d] weight[unit][d]        rows of out are padded_units(units) floats apart
#pragma once

#include "ops/products/product.hpp"

namespace fovea {

struct ProjectionRows {
  int64_t batch, heads, length;
  HeadStrides strides;      // of x
  HeadStrides out_strides;  // in rows
  bool valid_only = false;  // keys that no query attends may be left out; out_strides are those of packed rows
};

// Kernels for rows of that type by that weight: products of bfloat16 where the processor has them and rows are whole
// pairs, else those of float32, which widen the weight.
const MatmulKernels &projection_kernels(const Kernels &kernels, Dtype x, const ProductMatrix &weight,
                                        ProductUse use = ProductUse::projection);

// Whether these kernels take rows of that type, so many elements apart, where they lie: others are to be copied, as
// rows_dtype, next to each other.
bool projected_in_place(const MatmulKernels &kernels, Dtype x, int64_t stride);
bool projected_in_place(const MatmulKernels &kernels, const HeadRows &rows);

// Rows are of the kernels' rows_dtype. False if the sizes overflow.
[[nodiscard]] bool plan_projection(const MatmulKernels &kernels, const ProjectionRows &rows,
                                   const ProductMatrix &weight, Product *product);

// What is left to do to its rows. bias and reach may be null.
UnitFinish finish_of(const Kernels &kernels, const Product &product, const float *bias, float *reach,
                     const KeptRows &kept = {});

}  // namespace fovea
