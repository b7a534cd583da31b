// One rank gives what it must not: all ranks refuse it with one status and one message, which names that rank and the
// argument, and no output is written. The handle serves the next call.
#include <doctest/doctest.h>

#include <functional>

#include "ranks.hpp"

namespace testing {
namespace {

struct Spoiler {
  const char *said;  // in the message
  fovea_status status;
  std::function<void(RankCall &, fovea_mpi_ring_options &)> spoil;
  bool alone = true;  // wrong on a single rank, too
};

const std::vector<Spoiler> &spoilers() {
  static const Tensor<float> slopes(Shape{2});
  static const Tensor<uint8_t> mask(Shape{30, 30});
  static const Tensor<int64_t> lens(Shape{2});
  static const fovea_tensor mask_view = mask.view(), slopes_view = slopes.view(), lens_view = lens.view();
  static const fovea_score bad_score = {
      sizeof(fovea_score), 77, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  static const std::vector<Spoiler> all = {
      {"key has 7 features", FOVEA_BAD_SHAPE, [](RankCall &c, auto &) { c.arguments.key.shape[3] = 7; }},
      {"query.shape[1]", FOVEA_BAD_SHAPE,
       [](RankCall &c, auto &) {
         c.arguments.query.shape[1] = c.arguments.out.shape[1] = 1;
         c.arguments.key.shape[1] = c.arguments.value.shape[1] = 1;
         c.arguments.options.log_sum_exp = nullptr;
       },
       false},
      {"value has dtype", FOVEA_BAD_DTYPE, [](RankCall &c, auto &) { c.arguments.value.dtype = FOVEA_I64; }},
      {"value.dtype is FOVEA_BF16, expected FOVEA_F32", FOVEA_BAD_DTYPE,
       [](RankCall &c, auto &) { c.arguments.value.dtype = FOVEA_BF16; }, false},
      {"key.data is NULL", FOVEA_NULL_POINTER, [](RankCall &c, auto &) { c.arguments.key.data = nullptr; }},
      {"query.data is not aligned", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.query.data = static_cast<char *>(c.arguments.query.data) + 1; }},
      {"query has rank 1", FOVEA_BAD_RANK, [](RankCall &c, auto &) { c.arguments.query.rank = 1; }},
      {"out overlaps key", FOVEA_OVERLAP, [](RankCall &c, auto &) { c.arguments.out.data = c.arguments.key.data; }},
      {"options.log_sum_exp overlaps out", FOVEA_OVERLAP,
       [](RankCall &c, auto &) { c.arguments.log_sum_exp.data = c.arguments.out.data; }},
      {"options.mask is given", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.options.mask = &mask_view; }},
      {"options.bias is given", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.options.bias = &mask_view; }},
      {"options.weights is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.weights = &mask_view; }},
      {"options.scores is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.scores = &mask_view; }},
      {"options.projected_query is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.projected_query = &mask_view; }},
      {"options.projected_key is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.projected_key = &mask_view; }},
      {"options.key_scales is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.key_scales = &mask_view; }},
      {"options.value_scales is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.value_scales = &mask_view; }},
      {"options.dropout is 0.5", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.options.dropout = 0.5f; }},
      {"options.empty_rows is FOVEA_EMPTY_ROWS_UNIFORM", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM; }},
      {"options.struct_size is 5", FOVEA_BAD_OPTION, [](RankCall &c, auto &) { c.arguments.options.struct_size = 5; }},
      {"options.scale is 0.5, expected 0", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.scale = 0.5f; }, false},
      {"options.flags is", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.options.flags |= FOVEA_CAUSAL; },
       false},
      {"options.alibi_slopes is given, expected NULL", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.alibi_slopes = &slopes_view; }, false},
      {"options.valid_lens", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.options.valid_lens = &lens_view; },
       false},
      {"score.kind", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.score.emplace().score = bad_score; }},
      {"ring.order is 9", FOVEA_BAD_VALUE, [](RankCall &, auto &ring) { ring.order = 9; }},
      {"ring.order is FOVEA_MPI_STRIPED, expected FOVEA_MPI_CONTIGUOUS", FOVEA_BAD_VALUE,
       [](RankCall &, auto &ring) { ring.order = FOVEA_MPI_STRIPED; }, false},
      {"ring.transport is 8", FOVEA_BAD_VALUE, [](RankCall &, auto &ring) { ring.transport = FOVEA_I8; }},
      {"ring.transport is 2, expected 0", FOVEA_BAD_VALUE, [](RankCall &, auto &ring) { ring.transport = FOVEA_F16; },
       false},
      {"ring.struct_size is 3", FOVEA_BAD_OPTION, [](RankCall &, auto &ring) { ring.struct_size = 3; }},
  };
  return all;
}

// Whether the ranks' messages are one.
bool same_text_everywhere(const std::string &mine) {
  char first[600] = "";
  mine.copy(first, sizeof first - 1);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  return everywhere(mine == first);
}

fovea_status call_ring(fovea_mpi *mpi, const RankCall &c, const fovea_mpi_ring_options &ring) {
  const AttentionArguments &a = c.arguments;
  return fovea_mpi_ring_attention(mpi, c.score(), &a.query, &a.key, &a.value, &a.out, &a.options, &ring);
}

}  // namespace

TEST_SUITE_BEGIN("errors");

TEST_CASE("what one rank refuses, all return, with one message, and nothing is written") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  const AttentionProblem problem = make_attention(
      {.batch = 2, .heads = 2, .kv_heads = 2, .query_len = 30, .key_len = 30, .head_dim = 8, .value_dim = 8}, random);
  const std::vector<RankPositions> places = positions_of_ranks(FOVEA_MPI_CONTIGUOUS, even_lengths(30));
  for (const Spoiler &spoiler : spoilers()) {
    for (const int wrong : {world_size() - 1, world_size() / 2}) {
      if (world_size() == 1 && !spoiler.alone) continue;
      CAPTURE(spoiler.said);
      const Positions mine = places[static_cast<size_t>(world_rank())].all();
      RankCall call(problem, mine, mine);
      fovea_mpi_ring_options ring = {sizeof ring, FOVEA_MPI_CONTIGUOUS, 0};
      if (world_rank() == wrong) spoiler.spoil(call, ring);
      CHECK(everywhere(call_ring(mpi.get(), call, ring) == spoiler.status));
      const std::string said = fovea_mpi_last_error();
      CHECK(same_text_everywhere(said));
      CHECK_MESSAGE(said.find(spoiler.said) != std::string::npos, said);
      CHECK_MESSAGE(said.find("rank " + std::to_string(wrong) + ": ") == 0, said);
      CHECK(call.result.out.untouched());
      CHECK(call.result.log_sum_exp->untouched());
    }
  }
  const Positions mine = places[static_cast<size_t>(world_rank())].all();
  const RankCall call(problem, mine, mine);
  CHECK_EQ(call_ring(mpi.get(), call, {sizeof(fovea_mpi_ring_options), FOVEA_MPI_CONTIGUOUS, 0}), FOVEA_OK);
}

TEST_CASE("a share of another length than the order gives is refused by all") {
  if (world_size() == 1) return;  // has every share
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  const AttentionProblem problem =
      make_attention({.query_len = 60, .key_len = 60, .head_dim = 8, .value_dim = 8}, random);
  for (const int32_t order : {FOVEA_MPI_ZIGZAG, FOVEA_MPI_STRIPED}) {
    std::vector<RankPositions> places = positions_of_ranks(order, even_lengths(60));
    places.back().runs[0].push_back(0);  // two positions too many, which are others' in a longer whole
    places.back().runs[0].push_back(1);
    const Positions mine = places[static_cast<size_t>(world_rank())].all();
    const RankCall call(problem, mine, mine);
    CHECK(everywhere(call_ring(mpi.get(), call, {sizeof(fovea_mpi_ring_options), order, 0}) == FOVEA_BAD_SHAPE));
    const std::string said = fovea_mpi_last_error();
    CHECK(same_text_everywhere(said));
    CHECK_MESSAGE(said.find("query.shape[2] is") != std::string::npos, said);
    CHECK(call.result.out.untouched());
  }
}

TEST_CASE("lengths and offsets that differ from rank 0's or lie outside the whole") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  AttentionProblem problem =
      make_attention({.batch = 2, .query_len = 24, .key_len = 24, .head_dim = 8, .value_dim = 8}, random);
  const std::vector<RankPositions> places = positions_of_ranks(FOVEA_MPI_CONTIGUOUS, even_lengths(24));
  const Positions mine = places[static_cast<size_t>(world_rank())].all();
  const auto refused = [&](fovea_status status, const char *words) {
    CAPTURE(words);
    const RankCall call(problem, mine, mine);
    CHECK(everywhere(call_ring(mpi.get(), call, {sizeof(fovea_mpi_ring_options), FOVEA_MPI_CONTIGUOUS, 0}) == status));
    const std::string said = fovea_mpi_last_error();
    CHECK(same_text_everywhere(said));
    CHECK_MESSAGE(said.find(words) != std::string::npos, said);
    CHECK(call.result.out.untouched());
  };
  problem.set_valid_lens({24, 25});
  refused(FOVEA_BAD_VALUE, "options.valid_lens[1] is 25, expected 0 to 24");
  problem.set_valid_lens({24, 24});
  problem.set_query_offsets({0, int64_t{1} << 30}, true);
  refused(FOVEA_BAD_VALUE, "options.query_offsets[1] is 1073741824");
  problem.query_offsets64.reset();
  problem.flags = FOVEA_QUERY_OFFSET | FOVEA_CAUSAL;
  problem.query_offset = int64_t{1} << 30;
  refused(FOVEA_BAD_VALUE, "options.query_offset is 1073741824");
  problem.flags = FOVEA_CAUSAL;
  if (world_size() == 1) return;
  problem.set_valid_lens({24, world_rank() == world_size() - 1 ? 3 : 24});
  refused(FOVEA_BAD_VALUE, "options.valid_lens has another shape, type or values than rank 0's");
}

TEST_CASE("ranks that call different functions") {
  if (world_size() == 1) return;
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  const AttentionProblem problem =
      make_attention({.query_len = 8, .key_len = 8, .head_dim = 8, .value_dim = 8}, random);
  const RankCall call(problem, {0, 1}, {0, 1});
  const AttentionArguments &a = call.arguments;
  const fovea_status status =
      world_rank() == world_size() - 1
          ? fovea_mpi_decode_attention(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options, nullptr)
          : fovea_mpi_ring_attention(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options, nullptr);
  CHECK(everywhere(status == FOVEA_BAD_VALUE));
  const std::string said = fovea_mpi_last_error();
  CHECK_EQ(said, "rank " + std::to_string(world_size() - 1) +
                     ": calls fovea_mpi_decode_attention, expected fovea_mpi_ring_attention as rank 0 does");
  CHECK(call.result.out.untouched());
}

TEST_CASE("handles: what is refused, and figures") {
  fovea_mpi *mpi = nullptr;
  CHECK_EQ(fovea_mpi_create(MPI_COMM_WORLD, nullptr, nullptr, nullptr), FOVEA_NULL_POINTER);
  CHECK_EQ(fovea_mpi_create(MPI_COMM_NULL, nullptr, nullptr, &mpi), FOVEA_BAD_VALUE);
  CHECK(std::string(fovea_mpi_last_error()).find("MPI_COMM_NULL") != std::string::npos);
  fovea_mpi_options options = {sizeof options, 0, 0, world_rank() == world_size() - 1 ? -1 : 0};
  CHECK(everywhere(fovea_mpi_create(MPI_COMM_WORLD, nullptr, &options, &mpi) == FOVEA_BAD_VALUE));
  CHECK(same_text_everywhere(fovea_mpi_last_error()));
  CHECK(std::string(fovea_mpi_last_error()).find("options.message_bytes is -1") != std::string::npos);
  CHECK(mpi == nullptr);
  CHECK_EQ(fovea_mpi_ring_attention(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
           FOVEA_NULL_POINTER);
  CHECK_EQ(fovea_mpi_rank(nullptr), -1);
  CHECK_EQ(fovea_mpi_ranks(nullptr), 0);
  fovea_mpi_destroy(nullptr);
  const OwnHandle own = make_handle();
  CHECK_EQ(fovea_mpi_rank(own.get()), world_rank());
  CHECK_EQ(fovea_mpi_ranks(own.get()), world_size());
  fovea_mpi_figures figures = {};
  CHECK_EQ(fovea_mpi_last_figures(own.get(), &figures), FOVEA_BAD_OPTION);
  CHECK_EQ(fovea_mpi_last_figures(own.get(), nullptr), FOVEA_NULL_POINTER);
  figures.struct_size = sizeof figures;
  CHECK_EQ(fovea_mpi_last_figures(nullptr, &figures), FOVEA_NULL_POINTER);
  CHECK_EQ(fovea_mpi_last_figures(own.get(), &figures), FOVEA_OK);
}

TEST_SUITE_END();

}  // namespace testing
