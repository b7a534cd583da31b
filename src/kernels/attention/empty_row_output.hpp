// What a row with nothing to attend gives: zeros, the mean of all values (every weight 1 / key_len), or NaN.
#pragma once

#include "kernels/attention/empty_rows.hpp"
#include "kernels/attention/source.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// out: of the outputs' type.
FOVEA_INLINE void write_empty_row(const AttentionProblem &problem, int64_t batch, int64_t kv_head, void *out) {
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
