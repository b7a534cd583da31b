// What fovea/mpi.h says that ring attention's backward pass computes, done by one process without MPI.
#pragma once

#include "gradient_problem.hpp"
#include "ranks.hpp"

namespace testing {

// The gradients of the whole. given: what reaches the whole results, and the layouts of what is wanted. forward: the
// whole results.
GradientTensors backward_in_one_process(const AttentionProblem &whole, const GradientTensors &given,
                                        const AttentionResult &forward, const std::vector<RankPositions> &queries,
                                        const std::vector<RankPositions> &keys, const fovea_context *context);

}  // namespace testing
