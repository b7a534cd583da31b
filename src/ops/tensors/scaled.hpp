// Tensors of numbers that have scales: I8, a scale for each group of features; U8, two features of 4 bits in each, and
// for each group a pair of scales, the second of which is the least number.
#pragma once

#include "fovea/fovea.h"
#include "types.hpp"

namespace fovea {

constexpr bool is_scaled_type(fovea_dtype dtype) { return dtype == FOVEA_I8 || dtype == FOVEA_U8; }

// Features in each number of a row, or scales for each group of them.
constexpr int64_t paired(fovea_dtype dtype) { return dtype == FOVEA_U8 ? 2 : 1; }

// What a group has to be a multiple of, unless it is a whole row of I8.
constexpr int64_t group_step(fovea_dtype dtype) { return dtype == FOVEA_U8 ? 32 : 16; }

inline int64_t last_size(const fovea_tensor &tensor) { return tensor.shape[tensor.rank - 1]; }

// Features of a row; of more than fit the largest number, which is no multiple of a group.
inline int64_t features_of(const fovea_tensor &rows) {
  int64_t features = 0;
  return checked_multiply(last_size(rows), paired(rows.dtype), &features) ? features : INT64_MAX;
}

// Whether so many scales of a row are groups that fit its features.
constexpr bool scales_fit(fovea_dtype dtype, int64_t features, int64_t scales) {
  const int64_t groups = scales / paired(dtype);
  if (groups < 1 || scales % paired(dtype) != 0 || features % groups != 0) return false;
  return features / groups % group_step(dtype) == 0 || (groups == 1 && dtype == FOVEA_I8);
}

// "expected ...", with the name and the number of features.
constexpr const char *fitting_scales(fovea_dtype dtype) {
  return dtype == FOVEA_U8 ? "pairs for groups of a multiple of 32" : "1 or what makes groups of a multiple of 16";
}

}  // namespace fovea
