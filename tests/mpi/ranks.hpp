// Ranks in tests: who has which positions, by the definition of each order; shares of problems; results put together.
#pragma once

#include <fovea/mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "attention_problem.hpp"

namespace testing {

int world_rank();
int world_size();

struct DestroyHandle {
  void operator()(fovea_mpi *mpi) const { fovea_mpi_destroy(mpi); }
};
using OwnHandle = std::unique_ptr<fovea_mpi, DestroyHandle>;

// The context of all ranks, each with one thread of the best instruction set.
const fovea_context *one_thread();
OwnHandle make_handle(int64_t message_bytes = 0, const fovea_context *context = one_thread());

// Ends all ranks where a call that they depend on failed.
void need(fovea_status status, const char *what);

using Positions = std::vector<int64_t>;

// A rank's positions, run by run.
struct RankPositions {
  std::vector<Positions> runs;
  Positions all() const;
};

// The positions of every rank. lengths: those of each rank where the order is contiguous; else their sum alone counts.
std::vector<RankPositions> positions_of_ranks(int32_t order, const std::vector<int64_t> &lengths);

// Lengths of each rank that add up to `whole`, some of them 0.
std::vector<int64_t> random_lengths(int64_t whole, Random &random);
// As even as can be.
std::vector<int64_t> even_lengths(int64_t whole);

// The positions of a tensor [...,L,D], with gaps between rows if wanted.
Tensor<float> pick(const Tensor<float> &whole, const Positions &positions, bool gaps = false);
Tensor<float> pick_along(int of_positions, const Tensor<float> &whole, const Positions &positions, bool gaps = false);

// A tensor of results as each rank has it, put into the whole at its positions. axis: that of positions.
void put_into(const Tensor<float> &mine, const std::vector<RankPositions> &ranks, int axis, Tensor<float> *whole);

// Room for the results of some of the queries.
AttentionResult result_of_share(const AttentionProblem &whole, int64_t query_len);

// A rank's call: its queries, keys and values; all options as they are.
struct RankCall {
  RankCall(const AttentionProblem &whole, const Positions &queries, const Positions &keys);
  Tensor<float> query, key, value;
  AttentionResult result;
  AttentionArguments arguments;  // pointing into these and into the problem

  const fovea_score *score() const { return arguments.score ? &arguments.score->score : nullptr; }
};

// The whole result, on every rank, from each rank's.
AttentionResult put_together(const AttentionProblem &whole, const std::vector<RankPositions> &queries,
                             const AttentionResult &mine);

// Whether all ranks say yes.
bool everywhere(bool mine);

}  // namespace testing
