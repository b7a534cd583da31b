// Calls of ring attention's backward pass in tests.
#include "backward_calls.hpp"

#include <doctest/doctest.h>

namespace testing {

GradientTensors share_of(const AttentionProblem &whole, const RingShares &shares, const GradientTensors &given) {
  GradientTensors mine = unwritten(given);
  const Positions queries = shares.my_queries(), keys = shares.my_keys();
  const auto room = [](const Tensor<float> &like) { return Tensor<float>(like.shape(), like.strides()); };
  mine.out = pick(given.out, queries, true);
  if (given.log_sum_exp) mine.log_sum_exp = pick_along(whole.rank - 2, *given.log_sum_exp, queries, false);
  mine.query = room(pick(whole.query, queries, true));
  mine.key = room(pick(whole.key, keys));
  mine.value = room(pick(whole.value, keys, true));
  return mine;
}

BackwardCall::BackwardCall(const AttentionProblem &whole, const RingShares &shares, const AttentionResult &results,
                           const GradientTensors &given)
    : forward(whole, shares.my_queries(), shares.my_keys()), mine(share_of(whole, shares, given)), gradients(mine) {
  forward.result.out.assign(results.out.dense());
  forward.result.log_sum_exp->assign(results.log_sum_exp->dense());
}

fovea_status BackwardCall::run(fovea_mpi *mpi, const fovea_mpi_ring_options *ring) const {
  const AttentionArguments &a = forward.arguments;
  return fovea_mpi_ring_attention_backward(mpi, forward.score(), &a.query, &a.key, &a.value, &a.out, &a.options,
                                           &gradients.gradients, ring);
}

GradientTensors run_backward_ring(fovea_mpi *mpi, const AttentionProblem &whole, const RingShares &shares,
                                  const AttentionResult &forward, const GradientTensors &given, fovea_dtype transport) {
  BackwardCall call(whole, shares, forward, given);
  const fovea_mpi_ring_options ring = {sizeof ring, shares.order, transport};
  need(call.run(mpi, &ring), "fovea_mpi_ring_attention_backward");
  CHECK(call.mine.query.gaps_untouched());
  CHECK(call.mine.key.gaps_untouched());
  CHECK(call.mine.value.gaps_untouched());
  return std::move(call.mine);
}

}  // namespace testing
