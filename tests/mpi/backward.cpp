// Ring attention's backward pass on whatever number of ranks the program was started with: beside the formula in float64, beside
// one process that makes the calls of fovea/mpi.h, and beside itself.
#include <doctest/doctest.h>

#include "backward_calls.hpp"
#include "backward_one_process.hpp"
#include "narrow.hpp"
#include "random_attention.hpp"
#include "ring_calls.hpp"

namespace testing {
namespace {

bool same_gradients(const GradientTensors &a, const GradientTensors &b) {
  const auto same = [](const std::optional<Tensor<float>> &x, const std::optional<Tensor<float>> &y) {
    return !x || same_numbers(*x, *y);
  };
  return same_numbers(a.query, b.query) && same_numbers(a.key, b.key) && same_numbers(a.value, b.value) &&
         same(a.alibi_slopes, b.alibi_slopes) && same(a.sinks, b.sinks) && same(a.query_weight, b.query_weight) &&
         same(a.key_weight, b.key_weight) && same(a.weight, b.weight) && same(a.score_bias, b.score_bias) &&
         same(a.score_vector, b.score_vector) && same(a.sigmas, b.sigmas);
}

// The gradients on every rank, which has its own of the parameters: they must be the same.
GradientTensors put_together(const AttentionProblem &whole, const GradientTensors &given, const RingShares &shares,
                             const GradientTensors &mine) {
  GradientTensors all = unwritten(given);
  put_into(mine.query, shares.queries, whole.rank - 2, &all.query);
  put_into(mine.key, shares.keys, whole.rank - 2, &all.key);
  put_into(mine.value, shares.keys, whole.rank - 2, &all.value);
  for (const auto member : kSummedGradients) {
    if (mine.*member) (all.*member)->assign((mine.*member)->dense());
  }
  return all;
}

void check_backward(fovea_mpi *mpi, AttentionProblem &whole, const RingShares &shares, const GradientTensors &given) {
  CAPTURE(shares.order);
  CAPTURE(whole.describe());
  const AttentionResult forward = run_ring(mpi, whole, shares.order, shares.queries, shares.keys);
  const AttentionResult whole_forward = put_together(whole, shares.queries, forward);
  const GradientTensors mine = run_backward_ring(mpi, whole, shares, forward, given);
  CHECK(same_gradients(mine, run_backward_ring(mpi, whole, shares, forward, given)));
  const GradientTensors all = put_together(whole, given, shares, mine);
  if (world_size() > 1) {
    CHECK(same_gradients(
        all, backward_in_one_process(whole, given, whole_forward, shares.queries, shares.keys, one_thread())));
  } else {
    const GradientTensors alone = unwritten(given);
    REQUIRE_OK(run_backward(one_thread(), whole, whole_forward, alone));
    CHECK(same_gradients(all, alone));
  }
  if (world_rank() == 0) judge_gradients(whole, given, all);
}

}  // namespace

TEST_SUITE_BEGIN("backward");

TEST_CASE("backward: each order, causal and full, lengths that do not divide") {
  const OwnHandle mpi = make_handle();
  for (const int32_t order : kOrders3) {
    for (const uint32_t flags : {0u, static_cast<uint32_t>(FOVEA_CAUSAL)}) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 101, .key_len = 101, .head_dim = 16, .value_dim = 24},
          random);
      problem.flags = flags;
      const GradientTensors given = make_gradients(problem, random, true);
      check_backward(mpi.get(), problem, RingShares(order, even_lengths(101), even_lengths(101)), given);
    }
  }
}

TEST_CASE("backward: pieces of 512 queries") {
  const OwnHandle mpi = make_handle();
  for (const int32_t order : kOrders3) {
    Random random(base_seed());
    const int64_t length = 1100 * std::min(world_size(), 2) + 3;
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 1, .query_len = length, .key_len = length, .head_dim = 8, .value_dim = 8}, random);
    problem.flags = FOVEA_CAUSAL;
    const GradientTensors given = make_gradients(problem, random);
    check_backward(mpi.get(), problem, RingShares(order, even_lengths(length), even_lengths(length)), given);
  }
}

TEST_CASE("backward: random problems, all scores and options") {
  const OwnHandle mpi = make_handle();
  for (int64_t n = 0; n < case_count(40); ++n) {
    Random random(base_seed() + static_cast<uint64_t>(n));
    CAPTURE(n);
    const int32_t order = random.pick({FOVEA_MPI_CONTIGUOUS, FOVEA_MPI_ZIGZAG, FOVEA_MPI_STRIPED});
    AttentionProblem problem = random_problem(random, 150, 40, Scores::kAny);
    keep_to_ring(problem, order);
    const GradientTensors given = make_gradients(problem, random, random.chance(0.5));
    check_backward(mpi.get(), problem,
                   RingShares(order, random_lengths(problem.sizes.query_len, random),
                              random_lengths(problem.sizes.key_len, random)),
                   given);
  }
}

TEST_SUITE_END();

}  // namespace testing
