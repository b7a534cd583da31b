// Attention to a split cache: beside the formula in float64, beside one process that attends every rank's keys and
// merges, and the same bits on all ranks.
#include <doctest/doctest.h>

#include <algorithm>

#include "narrow.hpp"
#include "random_attention.hpp"
#include "ranks.hpp"

namespace testing {
namespace {

// What decoding takes of a random problem: nothing that counts positions. Lengths are those of the whole.
void keep_to_decoding(AttentionProblem &problem) {
  problem.mask.reset();
  problem.bias.reset();
  problem.alibi_slopes.reset();
  problem.query_offsets32.reset();
  problem.query_offsets64.reset();
  problem.valid_lens32.reset();
  problem.valid_lens64.reset();
  problem.dropout = 0;
  problem.flags &= FOVEA_SCALE_GIVEN;
  if (problem.empty_rows == FOVEA_EMPTY_ROWS_UNIFORM) problem.empty_rows = FOVEA_EMPTY_ROWS_NAN;
}

struct Split {
  AttentionProblem &whole;
  std::vector<RankPositions> keys;
  std::vector<std::vector<int64_t>> lens;  // of each rank, [B]; or empty
};

Positions all_queries(const AttentionProblem &whole) {
  Positions all;
  for (int64_t i = 0; i < whole.sizes.query_len; ++i) all.push_back(i);
  return all;
}

// The whole problem's valid_lens [B], and each rank's of its own keys.
void set_lens(Split &split, const std::vector<int64_t> &whole_lens) {
  split.whole.set_valid_lens(whole_lens, true);
  split.lens.clear();
  for (const RankPositions &rank : split.keys) {
    std::vector<int64_t> lens;
    for (const int64_t whole : whole_lens) {
      int64_t valid = 0;
      for (const int64_t p : rank.all()) valid += p < whole ? 1 : 0;
      lens.push_back(valid);
    }
    split.lens.push_back(lens);
  }
}

// A rank's call; lens must outlive it.
void localise(const Split &split, size_t rank, RankCall &call, Tensor<int64_t> &lens) {
  if (split.lens.empty()) return;
  lens.assign(split.lens[rank]);
  call.arguments.valid_lens = lens.view();
  call.arguments.options.valid_lens = &call.arguments.valid_lens;
}

AttentionResult run_decode(fovea_mpi *mpi, const Split &split, bool query_on_rank_0) {
  const auto rank = static_cast<size_t>(world_rank());
  RankCall call(split.whole, all_queries(split.whole), split.keys[rank].all());
  Tensor<int64_t> lens(Shape{split.whole.sizes.batch});
  localise(split, rank, call, lens);
  AttentionArguments &a = call.arguments;
  if (query_on_rank_0 && rank != 0) a.query.data = nullptr;
  fovea_mpi_decode_options decode = {sizeof decode, query_on_rank_0 ? uint32_t{FOVEA_MPI_QUERY_ON_RANK_0} : 0u, 0};
  need(fovea_mpi_decode_attention(mpi, call.score(), &a.query, &a.key, &a.value, &a.out, &a.options, &decode),
       "fovea_mpi_decode_attention");
  CHECK(call.result.out.gaps_untouched());
  return std::move(call.result);
}

// The calls that fovea/mpi.h lists. Outputs are contiguous [B,H,Q,Dv] here.
AttentionResult decode_in_one_process(const Split &split) {
  const AttentionSizes &s = split.whole.sizes;
  const int64_t rows = s.batch * s.heads * s.query_len;
  std::vector<float> outs, sums;
  int64_t parts = 0;
  if (split.whole.sinks) {
    outs.assign(static_cast<size_t>(rows * s.value_dim), 0.0f);
    for (int64_t row = 0; row < rows; ++row) sums.push_back(split.whole.sinks->at({row / s.query_len % s.heads}));
    ++parts;
  }
  for (size_t rank = 0; rank < split.keys.size(); ++rank) {
    RankCall call(split.whole, all_queries(split.whole), split.keys[rank].all());
    Tensor<int64_t> lens(Shape{s.batch});
    localise(split, rank, call, lens);
    AttentionArguments &a = call.arguments;
    std::vector<float> out(static_cast<size_t>(rows * s.value_dim)), sum(static_cast<size_t>(rows));
    const fovea_tensor out_view = fovea_tensor_contiguous(out.data(), FOVEA_F32, a.out.rank, a.out.shape);
    const fovea_tensor sum_view = fovea_tensor_contiguous(sum.data(), FOVEA_F32, a.out.rank - 1, a.out.shape);
    a.options.sinks = nullptr;
    a.options.empty_rows = FOVEA_EMPTY_ROWS_ZERO;
    a.options.log_sum_exp = &sum_view;
    REQUIRE_OK(fovea_attention(one_thread(), call.score(), &a.query, &a.key, &a.value, &out_view, &a.options));
    outs.insert(outs.end(), out.begin(), out.end());
    sums.insert(sums.end(), sum.begin(), sum.end());
    ++parts;
  }
  AttentionResult result = result_of_share(split.whole, s.query_len);
  const int64_t shape[] = {parts, rows, s.value_dim};
  std::vector<float> merged(static_cast<size_t>(rows * s.value_dim)), merged_sums(static_cast<size_t>(rows));
  const fovea_tensor outs_view = fovea_tensor_contiguous(outs.data(), FOVEA_F32, 3, shape);
  const fovea_tensor sums_view = fovea_tensor_contiguous(sums.data(), FOVEA_F32, 2, shape);
  const fovea_tensor out_view = fovea_tensor_contiguous(merged.data(), FOVEA_F32, 2, shape + 1);
  const fovea_tensor sum_view = fovea_tensor_contiguous(merged_sums.data(), FOVEA_F32, 1, shape + 1);
  REQUIRE_OK(fovea_merge_states(one_thread(), &outs_view, &sums_view, &out_view, &sum_view));
  for (int64_t row = 0; row < rows && split.whole.empty_rows == FOVEA_EMPTY_ROWS_NAN; ++row) {
    if (merged_sums[static_cast<size_t>(row)] == -kInfinity)
      std::fill_n(merged.begin() + row * s.value_dim, s.value_dim, kNan);
  }
  result.out.assign(merged);
  if (result.log_sum_exp) result.log_sum_exp->assign(merged_sums);
  return result;
}

bool same_numbers(const std::vector<float> &x, const std::vector<float> &y) {
  for (size_t n = 0; n < x.size(); ++n) {
    if (std::memcmp(&x[n], &y[n], sizeof x[n]) != 0 && !(x[n] != x[n] && y[n] != y[n])) return false;
  }
  return x.size() == y.size();
}

bool same_results(const AttentionResult &a, const AttentionResult &b) {
  return same_numbers(a.out.dense(), b.out.dense()) &&
         (!a.log_sum_exp || same_numbers(a.log_sum_exp->dense(), b.log_sum_exp->dense()));
}

bool same_on_all_ranks(const AttentionResult &mine) {
  std::vector<float> dense = mine.out.dense();
  MPI_Bcast(dense.data(), static_cast<int>(dense.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  return everywhere(same_numbers(dense, mine.out.dense()));
}

}  // namespace

TEST_SUITE_BEGIN("decode");

TEST_CASE("decoding: random problems, all scores, ranks without keys") {
  const OwnHandle mpi = make_handle();
  for (int64_t n = 0; n < case_count(40); ++n) {
    Random random(base_seed() + static_cast<uint64_t>(n));
    CAPTURE(n);
    AttentionProblem problem = random_problem(random, 130, 40, Scores::kAny);
    keep_to_decoding(problem);
    // Round-robin, as new tokens come, or in pieces of any length.
    const int32_t order = random.pick({FOVEA_MPI_CONTIGUOUS, FOVEA_MPI_STRIPED});
    Split split = {problem, positions_of_ranks(order, random_lengths(problem.sizes.key_len, random)), {}};
    if (random.chance(0.5)) {
      std::vector<int64_t> lens(static_cast<size_t>(problem.sizes.batch));
      for (int64_t &length : lens) length = random.integer(0, problem.sizes.key_len);
      set_lens(split, lens);
    }
    const AttentionResult mine = run_decode(mpi.get(), split, random.chance(0.5));
    CHECK(same_on_all_ranks(mine));
    CHECK(same_results(mine, run_decode(mpi.get(), split, false)));
    if (world_size() > 1) {
      CHECK(same_results(mine, decode_in_one_process(split)));
    } else {
      AttentionResult alone = problem.make_result(false);
      REQUIRE_OK(problem.run(one_thread(), alone));
      CHECK(same_results(mine, alone));
    }
    if (world_rank() == 0) check_result(problem, mine);
  }
}

TEST_CASE("decoding: a length for each query") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  AttentionProblem problem = make_attention(
      {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 3, .key_len = 40, .head_dim = 8, .value_dim = 8}, random);
  const std::vector<RankPositions> keys = positions_of_ranks(FOVEA_MPI_STRIPED, even_lengths(40));
  const Positions mine = keys[static_cast<size_t>(world_rank())].all();
  const std::vector<int64_t> whole = {0, 7, 40, 1, 22, 39};  // [B,Q]
  problem.set_valid_lens(whole);
  std::vector<int64_t> own;
  for (const int64_t length : whole) {
    own.push_back(std::count_if(mine.begin(), mine.end(), [&](int64_t p) { return p < length; }));
  }
  Tensor<int64_t> lens(Shape{2, 3});
  lens.assign(own);
  RankCall call(problem, all_queries(problem), mine);
  AttentionArguments &a = call.arguments;
  a.valid_lens = lens.view();
  a.options.valid_lens = &a.valid_lens;
  need(fovea_mpi_decode_attention(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options, nullptr),
       "fovea_mpi_decode_attention");
  CHECK(same_on_all_ranks(call.result));
  if (world_rank() == 0) check_result(problem, call.result);
}

TEST_CASE("decoding: keys and values of 8 bits, an output of 16") {
  const OwnHandle mpi = make_handle(0, shared_context("base", 1));
  Random random(base_seed());
  const int64_t keys = 21 + world_rank(), dim = 32;
  Tensor<float> query(Shape{2, 4, 1, dim}), key(Shape{2, 2, keys, dim}), value(Shape{2, 2, keys, dim});
  query.fill_normal(random);
  Random own(base_seed() + 100 + static_cast<uint64_t>(world_rank()));
  key.fill_normal(own);
  value.fill_normal(own);
  Tensor<int8_t> key8(key.shape()), value8(value.shape());
  Tensor<uint16_t> key_scales(Shape{2, 2, keys, 1}), value_scales(Shape{2, 2, keys, 1});
  const auto quantize = [](Tensor<float> &x, Tensor<int8_t> &q, Tensor<uint16_t> &scales) {
    fovea_tensor x_view = x.view(), q_view = q.view(), scales_view = scales.view();
    scales_view.dtype = FOVEA_F16;
    REQUIRE_OK(fovea_quantize(nullptr, &x_view, &q_view, &scales_view));
    REQUIRE_OK(fovea_dequantize(nullptr, &q_view, &scales_view, &x_view));
    return std::pair(q_view, scales_view);
  };
  const auto [key_view, key_scales_view] = quantize(key, key8, key_scales);
  const auto [value_view, value_scales_view] = quantize(value, value8, value_scales);
  Tensor<uint16_t> narrow(Shape{2, 4, 1, dim});
  Tensor<float> wide(Shape{2, 4, 1, dim});
  fovea_tensor narrow_view = narrow.view();
  const fovea_tensor query_view = query.view(), wide_view = wide.view(), exact_key = key.view(),
                     exact_value = value.view();
  fovea_attention_options options = {};
  options.struct_size = sizeof options;
  need(fovea_mpi_decode_attention(mpi.get(), nullptr, &query_view, &exact_key, &exact_value, &wide_view, &options,
                                  nullptr),
       "fovea_mpi_decode_attention");
  options.key_scales = &key_scales_view;
  options.value_scales = &value_scales_view;
  narrow_view.dtype = FOVEA_BF16;
  need(fovea_mpi_decode_attention(mpi.get(), nullptr, &query_view, &key_view, &value_view, &narrow_view, &options,
                                  nullptr),
       "fovea_mpi_decode_attention");
  bool same = true;
  for_each_index(wide.shape(), [&](const Shape &index) {
    same = same && widened(narrow.at(index), FOVEA_BF16) == rounded_to(wide.at(index), FOVEA_BF16);
  });
  CHECK(same);
}

TEST_CASE("decoding: what one rank refuses, all return") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  const AttentionProblem problem =
      make_attention({.batch = 2, .query_len = 3, .key_len = 16, .head_dim = 8, .value_dim = 8}, random);
  Positions queries = {0, 1, 2}, keys;
  for (int64_t j = 0; j < 5; ++j) keys.push_back(j);
  static const Tensor<float> one(Shape{1});
  static Tensor<int64_t> lens(Shape{2, 3});
  lens.fill([] { return int64_t{6}; });
  static const fovea_tensor one_view = one.view(), lens_view = lens.view();
  struct Case {
    const char *said;
    fovea_status status;
    void (*spoil)(RankCall &, fovea_mpi_decode_options &);
  };
  const Case cases[] = {
      {"options.flags is 0x1", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.options.flags = FOVEA_CAUSAL; }},
      {"options.flags is 0x20", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.flags = FOVEA_LEAVE_ONE_OUT; }},
      {"options.alibi_slopes is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.alibi_slopes = &one_view; }},
      {"options.query_offsets is given", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.query_offsets = &one_view; }},
      {"options.dropout is", FOVEA_BAD_VALUE, [](RankCall &c, auto &) { c.arguments.options.dropout = 0.1f; }},
      {"options.valid_lens[0] is 6, expected 0 to 5", FOVEA_BAD_VALUE,
       [](RankCall &c, auto &) { c.arguments.options.valid_lens = &lens_view; }},
      {"value.data is NULL", FOVEA_NULL_POINTER, [](RankCall &c, auto &) { c.arguments.value.data = nullptr; }},
      {"decode.flags is 0x2", FOVEA_BAD_OPTION, [](RankCall &, auto &decode) { decode.flags = 2; }},
      {"decode.reserved is 1", FOVEA_BAD_OPTION, [](RankCall &, auto &decode) { decode.reserved = 1; }},
      {"out overlaps value", FOVEA_OVERLAP, [](RankCall &c, auto &) { c.arguments.out.data = c.arguments.value.data; }},
  };
  const auto refused = [&](const RankCall &call, const fovea_mpi_decode_options &decode, fovea_status status,
                           const char *words) {
    const AttentionArguments &a = call.arguments;
    CHECK(everywhere(fovea_mpi_decode_attention(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options,
                                                &decode) == status));
    const std::string said = fovea_mpi_last_error();
    CHECK_MESSAGE(said.find(words) != std::string::npos, said);
    CHECK_MESSAGE(said.find("rank " + std::to_string(world_size() - 1) + ": ") == 0, said);
    CHECK(call.result.out.untouched());
  };
  for (const Case &spoiled : cases) {
    CAPTURE(spoiled.said);
    RankCall call(problem, queries, keys);
    fovea_mpi_decode_options decode = {sizeof decode, 0, 0};
    if (world_rank() == world_size() - 1) spoiled.spoil(call, decode);
    refused(call, decode, spoiled.status, spoiled.said);
  }
  if (world_size() == 1) return;
  // Another number of queries than rank 0's.
  if (world_rank() == world_size() - 1) queries.pop_back();
  refused(RankCall(problem, queries, keys), {sizeof(fovea_mpi_decode_options), 0, 0}, FOVEA_BAD_SHAPE,
          "query.shape[2] is 2, expected 3");
}

TEST_SUITE_END();

}  // namespace testing
