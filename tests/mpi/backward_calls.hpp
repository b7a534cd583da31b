// Calls of ring attention's backward pass in tests.
#pragma once

#include "gradient_problem.hpp"
#include "ring_calls.hpp"

namespace testing {

// Who has which positions.
struct RingShares {
  RingShares(int32_t its_order, const std::vector<int64_t> &query_lens, const std::vector<int64_t> &key_lens)
      : order(its_order),
        queries(positions_of_ranks(its_order, query_lens)),
        keys(positions_of_ranks(its_order, key_lens)) {}
  Positions my_queries() const { return queries[static_cast<size_t>(world_rank())].all(); }
  Positions my_keys() const { return keys[static_cast<size_t>(world_rank())].all(); }

  int32_t order;
  std::vector<RankPositions> queries, keys;
};

// Gradients that are the same on all ranks.
inline constexpr std::optional<Tensor<float>> GradientTensors::*kSummedGradients[] = {
    &GradientTensors::alibi_slopes, &GradientTensors::sinks,  &GradientTensors::query_weight,
    &GradientTensors::key_weight,   &GradientTensors::weight, &GradientTensors::score_bias,
    &GradientTensors::score_vector, &GradientTensors::sigmas};

// The calling rank's share of what reaches the results, and room for its gradients.
GradientTensors share_of(const AttentionProblem &whole, const RingShares &shares, const GradientTensors &given);

// A rank's call: its share of the forward call, results too, and of the gradients.
struct BackwardCall {
  BackwardCall(const AttentionProblem &whole, const RingShares &shares, const AttentionResult &forward,
               const GradientTensors &given);
  fovea_status run(fovea_mpi *mpi, const fovea_mpi_ring_options *ring) const;

  RankCall forward;
  GradientTensors mine;
  GradientArguments gradients;
};

// The calling rank's gradients; forward: its results.
GradientTensors run_backward_ring(fovea_mpi *mpi, const AttentionProblem &whole, const RingShares &shares,
                                  const AttentionResult &forward, const GradientTensors &given,
                                  fovea_dtype transport = 0);

}  // namespace testing
