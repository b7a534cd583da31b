// Copies of vectors and of rows.
#pragma once

#include <cstdint>

#include "fovea/fovea.h"
#include "runtime/context.hpp"

namespace fovea {

// Elements that follow each other, from one type of float32, float16 and bfloat16 to another. Between two of 16 bits
// they are floats on the way, which is exact.
void convert_elements(const RowwiseKernels &kernels, const void *from, Dtype from_dtype, int64_t count, void *to,
                      Dtype to_dtype);

// A vector of any stride becomes a contiguous one, of the same elements.
void gather(const float *from, int64_t stride, int64_t count, float *to);
void gather(const fovea_tensor &vector, void *to);

// Likewise, as floats.
void gather_floats(const Kernels &kernels, const fovea_tensor &vector, float *to);

// The element so many elements from the first, of float32, float16 or bfloat16.
void store_float(const RowwiseKernels &kernels, float number, const fovea_tensor &to, int64_t at);

// A tensor of float32, float16 or bfloat16, with any strides and a contiguous last axis, to another of the same shape
// and any of these types: bit by bit where both have one type, else rounded once.
void copy_rows(const Context &context, const fovea_tensor &from, const fovea_tensor &to);

// How many workers to give a copy.
int copying_workers(const Context &context, int64_t elements);

}  // namespace fovea
