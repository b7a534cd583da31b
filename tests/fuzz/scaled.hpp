// Numbers of 8 and 4 bits with scales: which tensors of a call are such, and float32 of what they stand for, worked out
// from the definition.
#pragma once

#include "frame.hpp"

namespace fuzz {

inline bool is_scaled(fovea_dtype dtype) { return dtype == FOVEA_I8 || dtype == FOVEA_U8; }
inline int64_t features_of(const fovea_tensor &numbers) {
  return numbers.shape[numbers.rank - 1] * (numbers.dtype == FOVEA_U8 ? 2 : 1);
}

// The name of the numbers that scales belong to: `key` of `key_scales`; of fovea_quantize's `scales` its `out`, of
// fovea_dequantize's its `q`.
std::string numbers_named(const Frame &frame, const SlotRow &scales);

// The scales of a tensor that stands for keys or values, which the call takes as float32 without scales too; -1: it is
// none such.
int scales_of(const Frame &frame, const Tensor &numbers);
// Whether a tensor is those scales of another one.
bool is_of_rows(const Frame &frame, const Tensor &scales);

// Whether all numbers with scales that the call reads are where they are said to be, so that floats may stand for them.
bool may_be_floats(const Frame &frame);

// The floats, in row-major order, and their descriptor, without data.
std::vector<uint8_t> floats_of(const Frame &frame, const Tensor &numbers, fovea_tensor *view);

}  // namespace fuzz
