// Attention by heads: the very bits of one call over the whole tensors, whatever the options.
#include <doctest/doctest.h>

#include "ranks.hpp"

namespace testing {
namespace {

constexpr int32_t kOrders3[] = {FOVEA_MPI_CONTIGUOUS, FOVEA_MPI_ZIGZAG, FOVEA_MPI_STRIPED};

fovea_status call_ulysses(fovea_mpi *mpi, const RankCall &call, const fovea_mpi_ulysses_options &ulysses) {
  const AttentionArguments &a = call.arguments;
  return fovea_mpi_ulysses_attention(mpi, call.score(), &a.query, &a.key, &a.value, &a.out, &a.options, &ulysses);
}

// NaN counts as NaN.
bool same_numbers(const Tensor<float> &a, const Tensor<float> &b) {
  const std::vector<float> x = a.dense(), y = b.dense();
  for (size_t n = 0; n < x.size(); ++n) {
    if (std::memcmp(&x[n], &y[n], sizeof x[n]) != 0 && !(x[n] != x[n] && y[n] != y[n])) return false;
  }
  return x.size() == y.size();
}

// Heads that divide by the ranks, any options.
AttentionProblem random_by_heads(Random &random) {
  AttentionSizes s;
  s.batch = random.integer(1, 2);
  s.kv_heads = world_size() * random.integer(1, 2);
  s.heads = s.kv_heads * random.integer(1, 2);
  if (random.chance(0.4)) {  // fewer than ranks
    s.kv_heads = random.integer(1, world_size());
    while (world_size() % s.kv_heads != 0) --s.kv_heads;
  }
  const bool many = random.chance(0.3);  // queries whose keys are split in no call
  s.query_len = many ? random.integer(257, 300) : random.integer(0, 70);
  s.key_len = random.integer(0, 90);
  s.head_dim = random.integer(1, 20);
  s.value_dim = random.integer(1, 20);
  const int32_t kind = kScoreKinds[random.integer(0, 4)];
  AttentionProblem problem =
      make_scored(kind, s, 7, random, random.pick({Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}));
  if (!many) problem.flags |= FOVEA_QUERY_INVARIANT;
  if (kind == FOVEA_SCORE_GAUSSIAN && random.chance(0.5)) {
    problem.score->sigma = 0;
    problem.score->sigmas.emplace(Shape{s.heads}).fill([&] { return random.uniform(0.5f, 4); });
  }
  if (random.chance(0.4)) problem.flags |= FOVEA_CAUSAL;
  if (random.chance(0.3)) problem.flags |= FOVEA_WINDOW_LEFT;
  if (random.chance(0.2)) problem.flags |= FOVEA_LEAVE_ONE_OUT;
  problem.window_left = random.integer(0, s.key_len);
  problem.softcap = random.pick({0.0f, 5.0f});
  problem.empty_rows = static_cast<int32_t>(random.integer(0, 2));
  if (random.chance(0.3)) problem.alibi_slopes.emplace(Shape{s.heads}).fill([&] { return random.uniform(0, 0.5f); });
  if (random.chance(0.3)) problem.sinks.emplace(Shape{s.heads}).fill_normal(random);
  if (random.chance(0.5)) {
    std::vector<int64_t> lens(static_cast<size_t>(random.chance(0.5) ? s.batch : s.batch * s.query_len));
    for (int64_t &length : lens) length = random.integer(0, s.key_len);
    if (!lens.empty()) problem.set_valid_lens(lens, random.chance(0.5));
  }
  if (random.chance(0.4)) {
    const Shape shape = {random.pick<int64_t>({1, s.batch}), random.pick<int64_t>({1, s.heads}), s.query_len,
                         s.key_len};
    problem.mask.emplace(shape).fill([&] { return static_cast<uint8_t>(random.chance(0.7)); });
  }
  if (random.chance(0.4)) {
    const bool flat = random.chance(0.3);
    const Shape shape = flat ? Shape{s.query_len, s.key_len} : Shape{1, s.heads, s.query_len, s.key_len};
    problem.bias.emplace(shape).fill_normal(random);
  }
  if (random.chance(0.2)) {
    problem.set_query_offsets(std::vector<int64_t>(static_cast<size_t>(s.batch), random.integer(-5, 30)));
  }
  return problem;
}

}  // namespace

TEST_SUITE_BEGIN("ulysses");

TEST_CASE("by heads: the bits of one call, each order, random options") {
  const OwnHandle mpi = make_handle(5000);
  for (int64_t n = 0; n < case_count(60); ++n) {
    Random random(base_seed() + static_cast<uint64_t>(n));
    const AttentionProblem problem = random_by_heads(random);
    const int32_t order = kOrders3[n % 3];
    CAPTURE(n);
    CAPTURE(problem.describe());
    const std::vector<RankPositions> queries =
        positions_of_ranks(order, random_lengths(problem.sizes.query_len, random));
    const std::vector<RankPositions> keys = positions_of_ranks(order, random_lengths(problem.sizes.key_len, random));
    const auto rank = static_cast<size_t>(world_rank());
    const RankCall call(problem, queries[rank].all(), keys[rank].all());
    need(call_ulysses(mpi.get(), call, {sizeof(fovea_mpi_ulysses_options), order, 0}), "fovea_mpi_ulysses_attention");
    CHECK(call.result.out.gaps_untouched());
    const AttentionResult alone = problem.make_result(false), all = put_together(problem, queries, call.result);
    REQUIRE_OK(problem.run(one_thread(), alone));
    CHECK(same_numbers(all.out, alone.out));
    CHECK(same_numbers(*all.log_sum_exp, *alone.log_sum_exp));
  }
}

TEST_CASE("by heads: what one rank refuses, all return; heads that do not divide") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  const int64_t heads = 2 * world_size();
  AttentionProblem problem = make_attention(
      {.heads = heads, .kv_heads = heads, .query_len = 24, .key_len = 24, .head_dim = 8, .value_dim = 8}, random);
  const std::vector<RankPositions> places = positions_of_ranks(FOVEA_MPI_CONTIGUOUS, even_lengths(24));
  const Positions mine = places[static_cast<size_t>(world_rank())].all();
  const int last = world_size() - 1;
  const auto refused = [&](const RankCall &call, const fovea_mpi_ulysses_options &options, fovea_status status,
                           const char *words, bool of_rank) {
    CAPTURE(words);
    CHECK(everywhere(call_ulysses(mpi.get(), call, options) == status));
    const std::string said = fovea_mpi_last_error();
    CHECK_MESSAGE(said.find(words) != std::string::npos, said);
    if (of_rank) CHECK_MESSAGE(said.find("rank " + std::to_string(last) + ": ") == 0, said);
    CHECK(call.result.out.untouched());
  };
  const fovea_mpi_ulysses_options usual = {sizeof usual, FOVEA_MPI_CONTIGUOUS, 0};
  {
    RankCall call(problem, mine, mine);
    if (world_rank() == last) call.arguments.options.dropout = 0.5f;
    refused(call, usual, FOVEA_BAD_VALUE, "options.dropout is 0.5", true);
  }
  {
    RankCall call(problem, mine, mine);
    if (world_rank() == last) call.arguments.options.struct_size = 9;
    refused(call, usual, FOVEA_BAD_OPTION, "options.struct_size is 9", true);
  }
  {
    RankCall call(problem, mine, mine);
    fovea_mpi_ulysses_options options = usual;
    if (world_rank() == last) options.order = 3;
    refused(call, options, FOVEA_BAD_VALUE, "ulysses.order is 3", true);
  }
  {
    RankCall call(problem, mine, mine);
    fovea_mpi_ulysses_options options = usual;
    if (world_rank() == last) options.reserved = 3;
    refused(call, options, FOVEA_BAD_OPTION, "ulysses.reserved is 3", true);
  }
  if (world_size() == 1) return;
  problem.mask.emplace(Shape{24, 25}).fill([] { return uint8_t{1}; });  // of keys that there are not
  refused(RankCall(problem, mine, mine), usual, FOVEA_BAD_SHAPE, "mask has 25 keys", false);
  problem.mask.emplace(Shape{24, world_rank() == last ? 23 : 24}).fill([] { return uint8_t{1}; });
  refused(RankCall(problem, mine, mine), usual, FOVEA_BAD_VALUE, "options.mask has another shape", true);
  problem.mask.reset();
  problem.set_valid_lens({25});  // found by the rank's own call
  refused(RankCall(problem, mine, mine), usual, FOVEA_BAD_VALUE, "valid_lens", false);
  problem.valid_lens32.reset();
  AttentionProblem odd = make_attention(
      {.heads = heads + 1, .kv_heads = 1, .query_len = 24, .key_len = 24, .head_dim = 8, .value_dim = 8}, random);
  refused(RankCall(odd, mine, mine), usual, FOVEA_BAD_SHAPE, "heads, expected a multiple of the", false);
  const int64_t kv_heads = world_size() + 1;
  AttentionProblem shared = make_attention({.heads = world_size() * kv_heads,
                                            .kv_heads = kv_heads,
                                            .query_len = 24,
                                            .key_len = 24,
                                            .head_dim = 8,
                                            .value_dim = 8},
                                           random);
  refused(RankCall(shared, mine, mine), usual, FOVEA_BAD_SHAPE, "heads, expected a multiple or a divisor of the",
          false);
}

TEST_SUITE_END();

}  // namespace testing
