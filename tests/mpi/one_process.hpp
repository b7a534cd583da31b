// What fovea/mpi.h says that ring attention computes, done by one process without MPI.
#pragma once

#include "ranks.hpp"

namespace testing {

// The result of one rank's queries. Which keys are attended comes from the reference, as a mask.
AttentionResult ring_in_one_process(const AttentionProblem &whole, const std::vector<RankPositions> &queries,
                                    const std::vector<RankPositions> &keys, int rank, const fovea_context *context);

}  // namespace testing
