// Calls of ring attention in tests.
#include "ring_calls.hpp"

#include <doctest/doctest.h>

namespace testing {

AttentionResult run_ring(fovea_mpi *mpi, const AttentionProblem &whole, int32_t order,
                         const std::vector<RankPositions> &queries, const std::vector<RankPositions> &keys) {
  const auto rank = static_cast<size_t>(world_rank());
  RankCall call(whole, queries[rank].all(), keys[rank].all());
  const AttentionArguments &a = call.arguments;
  fovea_mpi_ring_options ring = {};
  ring.struct_size = sizeof ring;
  ring.order = order;
  need(fovea_mpi_ring_attention(mpi, call.score(), &a.query, &a.key, &a.value, &a.out, &a.options, &ring),
       "fovea_mpi_ring_attention");
  CHECK(call.result.out.gaps_untouched());
  return std::move(call.result);
}

bool same_numbers(const Tensor<float> &a, const Tensor<float> &b) {
  const std::vector<float> x = a.dense(), y = b.dense();
  for (size_t n = 0; n < x.size(); ++n) {
    if (std::memcmp(&x[n], &y[n], sizeof x[n]) != 0 && !(x[n] != x[n] && y[n] != y[n])) return false;
  }
  return x.size() == y.size();
}

bool same_results(const AttentionResult &a, const AttentionResult &b) {
  return same_numbers(a.out, b.out) && (!a.log_sum_exp || same_numbers(*a.log_sum_exp, *b.log_sum_exp));
}

void keep_to_ring(AttentionProblem &problem, int32_t order) {
  problem.mask.reset();
  problem.bias.reset();
  problem.dropout = 0;
  problem.flags &= ~static_cast<uint32_t>(FOVEA_AVERAGE_WEIGHTS);
  if (problem.empty_rows == FOVEA_EMPTY_ROWS_UNIFORM) problem.empty_rows = FOVEA_EMPTY_ROWS_ZERO;
  if (problem.valid_lens32 && problem.valid_lens32->shape().size() == 2) problem.valid_lens32.reset();
  if (problem.valid_lens64 && problem.valid_lens64->shape().size() == 2) problem.valid_lens64.reset();
  if (order == FOVEA_MPI_STRIPED) problem.alibi_slopes.reset();
  const bool places = (problem.flags & (FOVEA_TOP_LEFT | FOVEA_QUERY_OFFSET)) != 0 || problem.query_offsets32 ||
                      problem.query_offsets64;
  if (!places && problem.sizes.key_len > problem.sizes.query_len)
    problem.flags &= ~static_cast<uint32_t>(FOVEA_LEAVE_ONE_OUT);
}

}  // namespace testing
