// What is said of a row with nothing to attend: its weights and its log-sum-exp. empty_row_output.hpp has its output.
#pragma once

#include <math.h>

#include "kernels/attention/problem.hpp"
#include "kernels/shared_rows.hpp"

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

}  // namespace
}  // namespace fovea::FOVEA_ISA
