// Ring attention on whatever number of ranks the program was started with: beside the formula in float64, beside one
// process that makes the calls of fovea/mpi.h, and beside itself.
#include <doctest/doctest.h>

#include "narrow.hpp"
#include "one_process.hpp"
#include "random_attention.hpp"
#include "ring_calls.hpp"

namespace testing {
namespace {

void check_ring(fovea_mpi *mpi, const AttentionProblem &whole, int32_t order, const std::vector<int64_t> &query_lens,
                const std::vector<int64_t> &key_lens) {
  CAPTURE(order);
  CAPTURE(whole.describe());
  const std::vector<RankPositions> queries = positions_of_ranks(order, query_lens),
                                   keys = positions_of_ranks(order, key_lens);
  const AttentionResult mine = run_ring(mpi, whole, order, queries, keys);
  CHECK(same_results(mine, run_ring(mpi, whole, order, queries, keys)));
  if (world_size() > 1) {
    CHECK(same_results(mine, ring_in_one_process(whole, queries, keys, world_rank(), one_thread())));
  } else {
    AttentionResult alone = whole.make_result(false);
    REQUIRE_OK(whole.run(one_thread(), alone));
    CHECK(same_results(mine, alone));
  }
  const AttentionResult all = put_together(whole, queries, mine);
  if (world_rank() == 0) check_result(whole, all);
}

}  // namespace

TEST_SUITE_BEGIN("ring");

TEST_CASE("each order, causal and full, lengths that do not divide") {
  const OwnHandle mpi = make_handle();
  for (const int32_t order : kOrders3) {
    for (const uint32_t flags : {0u, static_cast<uint32_t>(FOVEA_CAUSAL)}) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 101, .key_len = 101, .head_dim = 16, .value_dim = 24},
          random);
      problem.flags = flags;
      check_ring(mpi.get(), problem, order, even_lengths(101), even_lengths(101));
    }
  }
}

TEST_CASE("pieces of 512 queries") {
  const OwnHandle mpi = make_handle();
  for (const int32_t order : kOrders3) {
    Random random(base_seed());
    const int64_t length = 1100 * std::min(world_size(), 2) + 3;
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 1, .query_len = length, .key_len = length, .head_dim = 8, .value_dim = 8}, random);
    problem.flags = FOVEA_CAUSAL;
    check_ring(mpi.get(), problem, order, even_lengths(length), even_lengths(length));
  }
}

TEST_CASE("random problems: all scores and options") {
  const OwnHandle mpi = make_handle();
  for (int64_t n = 0; n < case_count(40); ++n) {
    Random random(base_seed() + static_cast<uint64_t>(n));
    CAPTURE(n);
    const int32_t order = random.pick({FOVEA_MPI_CONTIGUOUS, FOVEA_MPI_ZIGZAG, FOVEA_MPI_STRIPED});
    AttentionProblem problem = random_problem(random, 150, 40, Scores::kAny);
    keep_to_ring(problem, order);
    check_ring(mpi.get(), problem, order, random_lengths(problem.sizes.query_len, random),
               random_lengths(problem.sizes.key_len, random));
  }
}

TEST_CASE("messages in pieces change no bit") {
  const OwnHandle whole_messages = make_handle(), short_messages = make_handle(100);
  Random random(base_seed());
  AttentionProblem problem = make_attention(
      {.batch = 2, .heads = 2, .kv_heads = 2, .query_len = 61, .key_len = 61, .head_dim = 8, .value_dim = 8}, random);
  for (const int32_t order : kOrders3) {
    const std::vector<RankPositions> places = positions_of_ranks(order, even_lengths(61));
    CHECK(same_results(run_ring(whole_messages.get(), problem, order, places, places),
                       run_ring(short_messages.get(), problem, order, places, places)));
  }
}

TEST_CASE("more threads change no bit") {
  const OwnHandle one = make_handle(), three = make_handle(0, shared_context(instruction_sets().back(), 3));
  Random random(base_seed());
  AttentionProblem problem = make_attention(
      {.heads = 6, .kv_heads = 3, .query_len = 400, .key_len = 400, .head_dim = 32, .value_dim = 32}, random);
  problem.flags = FOVEA_CAUSAL;
  const std::vector<RankPositions> places = positions_of_ranks(FOVEA_MPI_ZIGZAG, even_lengths(400));
  CHECK(same_results(run_ring(one.get(), problem, FOVEA_MPI_ZIGZAG, places, places),
                     run_ring(three.get(), problem, FOVEA_MPI_ZIGZAG, places, places)));
}

TEST_CASE("16 bits: the float32 result of these numbers, rounded once") {
  // On a set without products of 16 bits, whose sums are the processor's.
  const OwnHandle mpi = make_handle(0, shared_context("base", 1));
  for (int64_t n = 0; n < 12; ++n) {
    Random random(base_seed() + static_cast<uint64_t>(n));
    const int32_t order = kOrders3[n % 3];
    CAPTURE(n);
    AttentionProblem problem = make_attention(
        {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 45, .key_len = 45, .head_dim = 16, .value_dim = 20},
        random);
    problem.flags = random.chance(0.5) ? static_cast<uint32_t>(FOVEA_CAUSAL) : 0u;
    fovea_dtype types[4];
    for (fovea_dtype &type : types) type = random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16});
    Tensor<float> *const inputs[] = {&problem.query, &problem.key, &problem.value};
    for (int t = 0; t < 3; ++t) {
      const std::vector<float> exact = inputs[t]->dense();
      size_t next = 0;
      inputs[t]->fill([&] { return rounded_to(exact[next++], types[t]); });
    }
    const std::vector<RankPositions> places = positions_of_ranks(order, even_lengths(45));
    const AttentionResult expected = run_ring(mpi.get(), problem, order, places, places);
    RankCall call(problem, places[static_cast<size_t>(world_rank())].all(),
                  places[static_cast<size_t>(world_rank())].all());
    std::vector<NarrowTensor> narrow;
    narrow.reserve(4);
    fovea_tensor *const views[] = {&call.arguments.query, &call.arguments.key, &call.arguments.value,
                                   &call.arguments.out};
    const Tensor<float> *const floats[] = {&call.query, &call.key, &call.value, &call.result.out};
    for (int t = 0; t < 4; ++t) {
      if (types[t] == FOVEA_F32) continue;
      narrow.emplace_back(*floats[t], types[t]);
      *views[t] = narrow.back().view();
    }
    fovea_mpi_ring_options ring = {sizeof ring, order, 0};
    const AttentionArguments &a = call.arguments;
    need(fovea_mpi_ring_attention(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options, &ring),
         "fovea_mpi_ring_attention");
    bool same = true;
    for_each_index(expected.out.shape(), [&](const Shape &index) {
      const float got = types[3] == FOVEA_F32 ? call.result.out.at(index) : widened(narrow.back().at(index), types[3]);
      same = same && got == rounded_to(expected.out.at(index), types[3]);
    });
    CHECK(same);
    CHECK(same_numbers(*expected.log_sum_exp, *call.result.log_sum_exp));
  }
}

TEST_CASE("keys and values that travel in 16 bits: the result of rounded ones, at half the bytes") {
  const OwnHandle mpi = make_handle();
  for (const fovea_dtype transport : {FOVEA_F16, FOVEA_BF16}) {
    for (const int32_t order : kOrders3) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 50, .key_len = 50, .head_dim = 16, .value_dim = 24},
          random);
      problem.flags = FOVEA_CAUSAL;
      const std::vector<RankPositions> places = positions_of_ranks(order, even_lengths(50));
      const Positions mine = places[static_cast<size_t>(world_rank())].all();
      const auto bytes_sent = [&] {
        fovea_mpi_figures figures = {};
        figures.struct_size = sizeof figures;
        REQUIRE_EQ(fovea_mpi_last_figures(mpi.get(), &figures), FOVEA_OK);
        return figures.bytes_sent;
      };
      const RankCall call(problem, mine, mine);
      const AttentionArguments &a = call.arguments;
      const fovea_mpi_ring_options ring = {sizeof ring, order, transport};
      need(fovea_mpi_ring_attention(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options, &ring),
           "fovea_mpi_ring_attention");
      const int64_t short_bytes = bytes_sent();
      for (Tensor<float> *tensor : {&problem.key, &problem.value}) {
        const std::vector<float> exact = tensor->dense();
        size_t next = 0;
        if (world_size() > 1) tensor->fill([&] { return rounded_to(exact[next++], transport); });
      }
      CHECK(same_results(call.result, run_ring(mpi.get(), problem, order, places, places)));
      CHECK_EQ(bytes_sent(), 2 * short_bytes);
    }
  }
}

TEST_CASE("blocks that nobody attends are neither computed nor sent further than their last reader") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  const int ranks = world_size(), rank = world_rank();
  const int64_t each = 8, length = each * ranks;
  AttentionProblem problem =
      make_attention({.query_len = length, .key_len = length, .head_dim = 8, .value_dim = 8}, random);
  const std::vector<RankPositions> places = positions_of_ranks(FOVEA_MPI_CONTIGUOUS, even_lengths(length));
  const int64_t block = each * (8 + 8) * static_cast<int64_t>(sizeof(float));
  const auto run = [&] {
    run_ring(mpi.get(), problem, FOVEA_MPI_CONTIGUOUS, places, places);
    fovea_mpi_figures figures = {};
    figures.struct_size = sizeof figures;
    REQUIRE_EQ(fovea_mpi_last_figures(mpi.get(), &figures), FOVEA_OK);
    return figures;
  };
  fovea_mpi_figures figures = run();
  if (ranks == 1) return;
  CHECK_EQ(figures.blocks_attended, ranks);
  CHECK_EQ(figures.blocks_passed_by, 0);
  CHECK_EQ(figures.bytes_sent, block * (ranks - 1));
  problem.flags = FOVEA_CAUSAL;  // rank r attends 0 to r, and sends those on, but for the last rank
  figures = run();
  CHECK_EQ(figures.blocks_attended, rank + 1);
  CHECK_EQ(figures.blocks_passed_by, ranks - 1 - rank);
  CHECK_EQ(figures.bytes_sent, rank + 1 < ranks ? block * (rank + 1) : 0);
  problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;  // itself and the rank before
  problem.window_left = each;
  figures = run();
  CHECK_EQ(figures.blocks_attended, rank == 0 ? 1 : 2);
  CHECK_EQ(figures.bytes_sent, rank + 1 < ranks ? block : 0);
  problem.flags = 0;  // keys of rank 0 alone
  problem.set_valid_lens({each});
  figures = run();
  CHECK_EQ(figures.blocks_attended, 1);
  CHECK_EQ(figures.bytes_sent, rank + 1 < ranks ? block : 0);
}

TEST_SUITE_END();

}  // namespace testing
