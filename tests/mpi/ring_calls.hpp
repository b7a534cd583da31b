// Calls of ring attention in tests, which forward and backward passes share.
#pragma once

#include "ranks.hpp"

namespace testing {

inline constexpr int32_t kOrders3[] = {FOVEA_MPI_CONTIGUOUS, FOVEA_MPI_ZIGZAG, FOVEA_MPI_STRIPED};

// The calling rank's result.
AttentionResult run_ring(fovea_mpi *mpi, const AttentionProblem &whole, int32_t order,
                         const std::vector<RankPositions> &queries, const std::vector<RankPositions> &keys);

// NaN counts as NaN.
bool same_numbers(const Tensor<float> &a, const Tensor<float> &b);
bool same_results(const AttentionResult &a, const AttentionResult &b);

// What ring attention takes of a random problem.
void keep_to_ring(AttentionProblem &problem, int32_t order);

}  // namespace testing
