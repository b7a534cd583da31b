// What a row with nothing to attend gives: zeros, the mean of all values (every weight 1 / key_len), or NaN.
#pragma once

#include <math.h>

#include "kernels/attention/problem.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

inline float empty_log_sum_exp(const AttentionProblem &problem) {
  if (problem.empty_rows != EmptyRows::uniform || problem.sizes.key_len == 0) return -INFINITY;
  return static_cast<float>(-1e6 + log(static_cast<double>(problem.sizes.key_len)));
}

inline float empty_weight(const AttentionProblem &problem) {
  if (problem.empty_rows == EmptyRows::nan) return NAN;
  if (problem.empty_rows == EmptyRows::uniform) return 1.0f / static_cast<float>(problem.sizes.key_len);
  return 0.0f;
}

inline void fill_empty_row(const AttentionProblem &problem, int64_t batch, int64_t kv_head, float *out) {
  const bool mean = problem.empty_rows == EmptyRows::uniform && problem.sizes.key_len > 0;
  const float fill = problem.empty_rows == EmptyRows::nan ? NAN : 0.0f;
  for (int64_t d = 0; d < problem.sizes.value_dim; ++d) out[d] = fill;
  if (!mean) return;
  const float *value = problem.value.data + batch * problem.value.strides.batch + kv_head * problem.value.strides.head;
  for (int64_t j = 0; j < problem.sizes.key_len; ++j, value += problem.value.strides.position) {
    for (int64_t d = 0; d < problem.sizes.value_dim; ++d) out[d] += value[d];
  }
  const float weight = 1.0f / static_cast<float>(problem.sizes.key_len);
  for (int64_t d = 0; d < problem.sizes.value_dim; ++d) out[d] *= weight;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
