// What a row with nothing to attend gives: zeros, the mean of all values (every weight 1 / key_len), or NaN.
#pragma once

#include <math.h>

#include "kernels/attention/source.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// log sum_j e^{s_j} from the largest score and the sum relative to it. With a score of +infinity that sum is NaN,
// infinity less infinity, and the logarithm is infinity.
inline float log_of_sum(float largest, float sum) { return largest == INFINITY ? largest : largest + logf(sum); }

// A power of two, so that all keys there can be add up to no more than 1 of it, and results have the bits they would
// have.
constexpr float least_share = 0x1p-31f;

inline float empty_log_sum_exp(const AttentionProblem &problem) {
  if (problem.empty_rows != EmptyRows::uniform || problem.sizes.key_len == 0) return -INFINITY;
  return static_cast<float>(-1e6 + log(static_cast<double>(problem.sizes.key_len)));
}

inline float empty_weight(const AttentionProblem &problem) {
  if (problem.empty_rows == EmptyRows::nan) return NAN;
  if (problem.empty_rows == EmptyRows::uniform) return 1.0f / static_cast<float>(problem.sizes.key_len);
  return 0.0f;
}

// out: of the outputs' type.
inline void fill_empty_row(const AttentionProblem &problem, int64_t batch, int64_t kv_head, void *out) {
  const bool mean = problem.empty_rows == EmptyRows::uniform && problem.sizes.key_len > 0;
  const float fill = problem.empty_rows == EmptyRows::nan ? NAN : 0.0f;
  const int64_t dim = problem.sizes.value_dim;
  alignas(64) float sums[largest_value_dim];
  for (int64_t d = 0; d < dim; ++d) sums[d] = fill;
  if (mean) {
    alignas(64) float value[largest_value_dim];
    const HeadSource values(problem.value, batch, kv_head, dim, RowForm::given, nullptr);
    const auto sum_shares = [&](float share) {
      bool finite = true;
      for (int64_t d = 0; d < dim; ++d) sums[d] = 0.0f;
      for (int64_t j = 0; j < problem.sizes.key_len; ++j) {
        values.float_row(j, value);
        for (int64_t d = 0; d < dim; ++d) sums[d] += value[d] * share;
      }
      const float weight = 1.0f / static_cast<float>(problem.sizes.key_len) / share;
      for (int64_t d = 0; d < dim; ++d) {
        sums[d] *= weight;
        finite = finite && fabsf(sums[d]) < INFINITY;
      }
      return finite;
    };
    if (!sum_shares(1.0f)) sum_shares(least_share);  // sums may be too large where means are not
  }
  narrow_row(sums, dim, out, problem.outputs.out_dtype);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
