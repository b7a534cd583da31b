// A grid of ranks: the bits of a ring of groups in one process, and the formula in float64; errors on one rank of one
// group.
#include <doctest/doctest.h>

#include <algorithm>

#include "one_process.hpp"
#include "ranks.hpp"

namespace testing {
namespace {

struct GridOfRanks {
  int groups, width;  // width ranks in each group
  OwnHandle within, between;
  int group() const { return world_rank() / width; }
  int number() const { return world_rank() % width; }
};

OwnHandle handle_of(int color) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, color, world_rank(), &part);
  fovea_mpi *mpi = nullptr;
  need(fovea_mpi_create(part, one_thread(), nullptr, &mpi), "fovea_mpi_create");
  MPI_Comm_free(&part);
  return OwnHandle(mpi);
}

GridOfRanks make_grid(int groups) {
  const int width = world_size() / groups;
  return {groups, width, handle_of(world_rank() / width), handle_of(world_rank() % width)};
}

// The positions of a group, cut into those of its ranks.
std::vector<RankPositions> cut(const Positions &group, int width, Random &random) {
  std::vector<int64_t> cuts = {0, static_cast<int64_t>(group.size())};
  while (static_cast<int>(cuts.size()) < width + 1)
    cuts.push_back(random.integer(0, static_cast<int64_t>(group.size())));
  std::sort(cuts.begin(), cuts.end());
  std::vector<RankPositions> ranks;
  for (size_t r = 0; r + 1 < cuts.size(); ++r)
    ranks.push_back({{Positions(group.begin() + cuts[r], group.begin() + cuts[r + 1])}});
  return ranks;
}

std::vector<RankPositions> of_all_ranks(const std::vector<RankPositions> &groups, int width, Random &random) {
  std::vector<RankPositions> all;
  for (const RankPositions &group : groups) {
    for (const RankPositions &rank : cut(group.all(), width, random)) all.push_back(rank);
  }
  return all;
}

fovea_status call_grid(const GridOfRanks &grid, const RankCall &call, const fovea_mpi_ring_options &ring) {
  const AttentionArguments &a = call.arguments;
  return fovea_mpi_grid_attention(grid.within.get(), grid.between.get(), call.score(), &a.query, &a.key, &a.value,
                                  &a.out, &a.options, &ring);
}

bool same_numbers(const Tensor<float> &a, const Tensor<float> &b) {
  const std::vector<float> x = a.dense(), y = b.dense();
  for (size_t n = 0; n < x.size(); ++n) {
    if (std::memcmp(&x[n], &y[n], sizeof x[n]) != 0 && !(x[n] != x[n] && y[n] != y[n])) return false;
  }
  return x.size() == y.size();
}

// The groups' results by a ring in one process, put into the whole.
AttentionResult ring_of_groups(const AttentionProblem &problem, const std::vector<RankPositions> &queries,
                               const std::vector<RankPositions> &keys) {
  AttentionResult whole = problem.make_result(false);
  for (size_t group = 0; group < queries.size(); ++group) {
    const AttentionResult part = ring_in_one_process(problem, queries, keys, static_cast<int>(group), one_thread());
    const Positions places = queries[group].all();
    for_each_index(part.out.shape(), [&](const Shape &index) {
      whole.out(index[0], index[1], places[static_cast<size_t>(index[2])], index[3]) = part.out.at(index);
    });
    for_each_index(part.log_sum_exp->shape(), [&](const Shape &index) {
      (*whole.log_sum_exp)(index[0], index[1], places[static_cast<size_t>(index[2])]) = part.log_sum_exp->at(index);
    });
  }
  return whole;
}

}  // namespace

TEST_SUITE_BEGIN("grid");

TEST_CASE("a grid: each order, options, scores, every way to cut the ranks into groups") {
  for (int groups = 1; groups <= world_size(); ++groups) {
    if (world_size() % groups != 0) continue;
    const GridOfRanks grid = make_grid(groups);
    for (int64_t n = 0; n < 9; ++n) {
      Random random(base_seed() + static_cast<uint64_t>(n));
      const int32_t order = static_cast<int32_t>(n % 3), kind = kScoreKinds[n % 5];
      CAPTURE(groups);
      CAPTURE(n);
      const int64_t length = random.integer(1, 60), kv_heads = grid.width * random.integer(1, 2);
      AttentionProblem problem = make_scored(kind,
                                             {.batch = 2,
                                              .heads = 2 * kv_heads,
                                              .kv_heads = kv_heads,
                                              .query_len = length,
                                              .key_len = length,
                                              .head_dim = 8,
                                              .value_dim = 12},
                                             5, random, Layout::kHeadsLast);
      if (random.chance(0.6)) problem.flags |= FOVEA_CAUSAL;
      if (random.chance(0.4)) problem.flags |= FOVEA_WINDOW_LEFT;
      problem.window_left = random.integer(0, length);
      if (random.chance(0.5)) problem.set_valid_lens({random.integer(0, length), length});
      if (random.chance(0.5)) problem.sinks.emplace(Shape{2 * kv_heads}).fill_normal(random);
      if (order != FOVEA_MPI_STRIPED && random.chance(0.5))
        problem.alibi_slopes.emplace(Shape{2 * kv_heads}).fill([&] { return random.uniform(0, 0.5f); });
      std::vector<int64_t> lengths;
      for (int g = 0; g < groups; ++g) lengths.push_back(length * (g + 1) / groups - length * g / groups);
      const std::vector<RankPositions> of_groups = positions_of_ranks(order, lengths);
      const std::vector<RankPositions> queries = of_all_ranks(of_groups, grid.width, random),
                                       keys = of_all_ranks(of_groups, grid.width, random);
      const auto rank = static_cast<size_t>(world_rank());
      const RankCall call(problem, queries[rank].all(), keys[rank].all());
      need(call_grid(grid, call, {sizeof(fovea_mpi_ring_options), order, 0}), "fovea_mpi_grid_attention");
      const AttentionResult all = put_together(problem, queries, call.result);
      if (groups > 1) {
        const AttentionResult expected = ring_of_groups(problem, of_groups, of_groups);
        CHECK(same_numbers(all.out, expected.out));
        CHECK(same_numbers(*all.log_sum_exp, *expected.log_sum_exp));
      }
      if (world_rank() == 0) check_result(problem, all);
    }
  }
}

TEST_CASE("a grid: what one rank refuses, the ranks of all groups return") {
  for (int groups = 1; groups <= world_size(); ++groups) {
    if (world_size() % groups != 0) continue;
    const GridOfRanks grid = make_grid(groups);
    CAPTURE(groups);
    Random random(base_seed());
    const int64_t length = 4 * world_size();
    const AttentionProblem problem = make_attention({.heads = grid.width,
                                                     .kv_heads = grid.width,
                                                     .query_len = length,
                                                     .key_len = length,
                                                     .head_dim = 8,
                                                     .value_dim = 8},
                                                    random);
    const Positions mine =
        positions_of_ranks(FOVEA_MPI_CONTIGUOUS, even_lengths(length))[static_cast<size_t>(world_rank())].all();
    const auto refused = [&](const RankCall &call, const fovea_mpi_ring_options &ring, fovea_status status,
                             const char *words) {
      CAPTURE(words);
      CHECK(everywhere(call_grid(grid, call, ring) == status));
      const std::string said = fovea_mpi_last_error();
      CHECK_MESSAGE(said.find(words) != std::string::npos, said);
      CHECK(call.result.out.untouched());
    };
    const fovea_mpi_ring_options usual = {sizeof usual, FOVEA_MPI_CONTIGUOUS, 0};
    {
      RankCall call(problem, mine, mine);  // of one rank, found in its group
      if (world_rank() == world_size() - 1) call.arguments.options.dropout = 0.5f;
      refused(call, usual, FOVEA_BAD_VALUE, "options.dropout is 0.5");
    }
    if (groups > 1) {  // of one group, found between groups
      RankCall call(problem, mine, mine);
      if (grid.group() == groups - 1) call.arguments.options.scale = 2;
      refused(call, usual, FOVEA_BAD_VALUE, "options.scale is 2, expected 0");
    }
    RankCall call(problem, mine, mine);
    CHECK(everywhere(call_grid(grid, call, usual) == FOVEA_OK));
  }
  CHECK_EQ(fovea_mpi_grid_attention(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
           FOVEA_NULL_POINTER);
}

TEST_SUITE_END();

}  // namespace testing
