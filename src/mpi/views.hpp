// Views of tensors: lifted to rank 4, parts of them, their bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fovea/fovea.h"

namespace fovea::mpi {

// Bytes of an element; 0 for a number that is no type.
size_t element_size(fovea_dtype dtype);
const char *dtype_name(fovea_dtype dtype);

// [L,D] and [B,L,D] as [B,H,L,D], a log-sum-exp [L] and [B,L] as [B,H,L]: axes of size 1 in front, and one for heads.
fovea_tensor lift(const fovea_tensor &tensor, int32_t rank);

// `count` entries of an axis from `first` on.
fovea_tensor part_of(const fovea_tensor &tensor, int32_t axis, int64_t first, int64_t count);

// Entry `index` of the first axis, which the result lacks.
fovea_tensor entry_of(const fovea_tensor &tensor, int64_t index);

// The same with an axis split in two, the first of `outer` entries, which divides its size.
fovea_tensor split_axis(const fovea_tensor &tensor, int32_t axis, int64_t outer);

// The same with an axis of size 1 in front, stride 0.
fovea_tensor with_front_axis(const fovea_tensor &tensor, int64_t size, int64_t stride);

int64_t element_count(const fovea_tensor &tensor);

// Copies elements between tensors of one shape and type, whatever their strides.
void copy_elements(const fovea_tensor &from, const fovea_tensor &to);

// Adds float32 elements of one tensor to those of another of its shape, which it does not overlap.
void add_floats(const fovea_tensor &terms, const fovea_tensor &sums);

// The bytes that a tensor with elements spans.
struct Span {
  uintptr_t begin, end;
};
Span span_of(const fovea_tensor &tensor);
bool overlap(const fovea_tensor &a, const fovea_tensor &b);

}  // namespace fovea::mpi
