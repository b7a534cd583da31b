// One rank gives the backward pass what it must not: all ranks refuse it with one status and one message, which names
// that rank and the argument, and no gradient is written. The handle serves the next call.
#include <doctest/doctest.h>

#include <functional>

#include "backward_calls.hpp"

namespace testing {
namespace {

struct Spoiler {
  const char *said;  // in the message
  fovea_status status;
  std::function<void(BackwardCall &, fovea_mpi_ring_options &)> spoil;
  bool alone = true;  // wrong on a single rank, too
};

AttentionArguments &forward_of(BackwardCall &call) { return call.forward.arguments; }
fovea_attention_options &options_of(BackwardCall &call) { return call.forward.arguments.options; }
fovea_attention_gradients &gradients_of(BackwardCall &call) { return call.gradients.gradients; }

const std::vector<Spoiler> &spoilers() {
  static const Tensor<float> slopes(Shape{2}), more(Shape{2, 2, 30, 30});
  static const Tensor<uint8_t> mask(Shape{30, 30});
  static const Tensor<int64_t> lens(Shape{2});
  static const fovea_tensor mask_view = mask.view(), slopes_view = slopes.view(), lens_view = lens.view(),
                            more_view = more.view();
  static const std::vector<Spoiler> all = {
      {"key has 7 features", FOVEA_BAD_SHAPE, [](BackwardCall &c, auto &) { forward_of(c).key.shape[3] = 7; }},
      {"value.dtype is FOVEA_BF16, expected FOVEA_F32", FOVEA_BAD_DTYPE,
       [](BackwardCall &c, auto &) { forward_of(c).value.dtype = FOVEA_BF16; }, false},
      {"out.dtype is FOVEA_BF16, expected FOVEA_F32", FOVEA_BAD_DTYPE,
       [](BackwardCall &c, auto &) { forward_of(c).out.dtype = FOVEA_BF16; }, false},
      {"out.data is NULL", FOVEA_NULL_POINTER, [](BackwardCall &c, auto &) { forward_of(c).out.data = nullptr; }},
      {"options.log_sum_exp is NULL", FOVEA_NULL_POINTER,
       [](BackwardCall &c, auto &) { options_of(c).log_sum_exp = nullptr; }},
      {"options.log_sum_exp.data is NULL", FOVEA_NULL_POINTER,
       [](BackwardCall &c, auto &) { forward_of(c).log_sum_exp.data = nullptr; }},
      {"gradients.struct_size is 3", FOVEA_BAD_OPTION,
       [](BackwardCall &c, auto &) { gradients_of(c).struct_size = 3; }},
      {"gradients.out is NULL", FOVEA_NULL_POINTER, [](BackwardCall &c, auto &) { gradients_of(c).out = nullptr; }},
      {"gradients.out.data is NULL", FOVEA_NULL_POINTER,
       [](BackwardCall &c, auto &) { c.gradients.out.data = nullptr; }},
      {"gradients.out has another shape, type", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { c.gradients.out.dtype = FOVEA_F16; }, false},
      {"gradients.log_sum_exp is NULL, expected a tensor as on rank 0", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { gradients_of(c).log_sum_exp = nullptr; }, false},
      {"gradients.weights is given", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { gradients_of(c).weights = &more_view; }},
      {"gradients.bias is given", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { gradients_of(c).bias = &more_view; }},
      {"gradients.query.shape[3] is 7", FOVEA_BAD_SHAPE,
       [](BackwardCall &c, auto &) { c.gradients.query.shape[3] = 7; }},
      {"gradients.key has dtype", FOVEA_BAD_DTYPE, [](BackwardCall &c, auto &) { c.gradients.key.dtype = FOVEA_I8; }},
      {"gradients.key is NULL, expected a tensor as on rank 0", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { gradients_of(c).key = nullptr; }, false},
      {"gradients.value has another shape, type", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { c.gradients.value.dtype = FOVEA_F16; }, false},
      {"gradients.value.data is not aligned", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { c.gradients.value.data = static_cast<char *>(c.gradients.value.data) + 1; }},
      {"gradients.sinks is NULL, expected a tensor as on rank 0", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { gradients_of(c).sinks = nullptr; }, false},
      {"gradients.alibi_slopes is given", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { gradients_of(c).alibi_slopes = &slopes_view; }},
      {"gradients.key overlaps key", FOVEA_OVERLAP,
       [](BackwardCall &c, auto &) { c.gradients.key.data = forward_of(c).key.data; }},
      {"gradients.query overlaps out", FOVEA_OVERLAP,
       [](BackwardCall &c, auto &) { c.gradients.query.data = forward_of(c).out.data; }},
      {"gradients.query overlaps gradients.out", FOVEA_OVERLAP,
       [](BackwardCall &c, auto &) { c.gradients.query.data = c.gradients.out.data; }},
      {"gradients.value overlaps gradients.key", FOVEA_OVERLAP,
       [](BackwardCall &c, auto &) { c.gradients.value.data = c.gradients.key.data; }},
      {"gradients.sinks overlaps options.log_sum_exp", FOVEA_OVERLAP,
       [](BackwardCall &c, auto &) { c.gradients.sinks.data = forward_of(c).log_sum_exp.data; }},
      {"options.mask is given", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { options_of(c).mask = &mask_view; }},
      {"options.bias is given", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { options_of(c).bias = &more_view; }},
      {"options.weights is given", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { options_of(c).weights = &more_view; }},
      {"options.scores is given", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { options_of(c).scores = &more_view; }},
      {"options.projected_query is given", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { options_of(c).projected_query = &more_view; }},
      {"options.projected_key is given", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { options_of(c).projected_key = &more_view; }},
      {"options.key_scales is given", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { options_of(c).key_scales = &more_view; }},
      {"options.value_scales is given", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { options_of(c).value_scales = &more_view; }},
      {"options.dropout is 0.5", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { options_of(c).dropout = 0.5f; }},
      {"options.empty_rows is FOVEA_EMPTY_ROWS_UNIFORM", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { options_of(c).empty_rows = FOVEA_EMPTY_ROWS_UNIFORM; }},
      {"options.scale is 0.5, expected 0", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { options_of(c).scale = 0.5f; },
       false},
      {"options.flags is", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { options_of(c).flags |= FOVEA_CAUSAL; },
       false},
      {"options.valid_lens", FOVEA_BAD_VALUE, [](BackwardCall &c, auto &) { options_of(c).valid_lens = &lens_view; },
       false},
      {"options.alibi_slopes is given, expected NULL", FOVEA_BAD_VALUE,
       [](BackwardCall &c, auto &) { options_of(c).alibi_slopes = &slopes_view; }, false},
      {"ring.order is 9", FOVEA_BAD_VALUE, [](BackwardCall &, auto &ring) { ring.order = 9; }},
      {"ring.order is FOVEA_MPI_STRIPED, expected FOVEA_MPI_CONTIGUOUS", FOVEA_BAD_VALUE,
       [](BackwardCall &, auto &ring) { ring.order = FOVEA_MPI_STRIPED; }, false},
      {"ring.transport is 2, expected 0", FOVEA_BAD_VALUE,
       [](BackwardCall &, auto &ring) { ring.transport = FOVEA_F16; }, false},
  };
  return all;
}

bool same_text_everywhere(const std::string &mine) {
  char first[600] = "";
  mine.copy(first, sizeof first - 1);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  return everywhere(mine == first);
}

bool nothing_written(const BackwardCall &call) {
  return call.mine.query.untouched() && call.mine.key.untouched() && call.mine.value.untouched() &&
         (!call.mine.sinks || call.mine.sinks->untouched());
}

}  // namespace

TEST_SUITE_BEGIN("backward errors");

TEST_CASE("backward: what one rank refuses, all return, with one message, and nothing is written") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  AttentionProblem problem = make_attention(
      {.batch = 2, .heads = 2, .kv_heads = 2, .query_len = 30, .key_len = 30, .head_dim = 8, .value_dim = 8}, random);
  problem.sinks.emplace(Shape{2}).fill_normal(random);
  const GradientTensors given = make_gradients(problem, random, true);
  const RingShares shares(FOVEA_MPI_CONTIGUOUS, even_lengths(30), even_lengths(30));
  const AttentionResult forward = run_ring(mpi.get(), problem, shares.order, shares.queries, shares.keys);
  for (const Spoiler &spoiler : spoilers()) {
    for (const int wrong : {world_size() - 1, world_size() / 2}) {
      if (world_size() == 1 && !spoiler.alone) continue;
      CAPTURE(spoiler.said);
      BackwardCall call(problem, shares, forward, given);
      fovea_mpi_ring_options ring = {sizeof ring, FOVEA_MPI_CONTIGUOUS, 0};
      if (world_rank() == wrong) spoiler.spoil(call, ring);
      CHECK(everywhere(call.run(mpi.get(), &ring) == spoiler.status));
      const std::string said = fovea_mpi_last_error();
      CHECK(same_text_everywhere(said));
      CHECK_MESSAGE(said.find(spoiler.said) != std::string::npos, said);
      CHECK_MESSAGE(said.find("rank " + std::to_string(wrong) + ": ") == 0, said);
      CHECK(nothing_written(call));
    }
  }
  const BackwardCall call(problem, shares, forward, given);
  CHECK_EQ(call.run(mpi.get(), nullptr), FOVEA_OK);
}

TEST_CASE("backward: what all ranks give and all refuse") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  AttentionProblem problem =
      make_attention({.batch = 2, .query_len = 24, .key_len = 24, .head_dim = 8, .value_dim = 8}, random);
  const GradientTensors given = make_gradients(problem, random);
  const RingShares shares(FOVEA_MPI_CONTIGUOUS, even_lengths(24), even_lengths(24));
  const AttentionResult forward = run_ring(mpi.get(), problem, shares.order, shares.queries, shares.keys);
  const auto refused = [&](fovea_status status, const char *words, int32_t order = FOVEA_MPI_CONTIGUOUS) {
    CAPTURE(words);
    const BackwardCall call(problem, shares, forward, given);
    const fovea_mpi_ring_options ring = {sizeof ring, order, 0};
    CHECK(everywhere(call.run(mpi.get(), &ring) == status));
    const std::string said = fovea_mpi_last_error();
    CHECK(same_text_everywhere(said));
    CHECK_MESSAGE(said.find(words) != std::string::npos, said);
    CHECK(nothing_written(call));
  };
  problem.set_valid_lens({24, 25});
  refused(FOVEA_BAD_VALUE, "options.valid_lens[1] is 25, expected 0 to 24");
  problem.valid_lens32.reset();
  problem.valid_lens64.emplace(Shape{2, static_cast<int64_t>(shares.my_queries().size())}).fill([] { return 3; });
  refused(FOVEA_BAD_RANK, "options.valid_lens has rank 2, expected 1");
  problem.valid_lens64.reset();
  problem.set_query_offsets({0, int64_t{1} << 30}, true);
  refused(FOVEA_BAD_VALUE, "options.query_offsets[1] is 1073741824");
  problem.query_offsets64.reset();
  problem.flags = FOVEA_CAUSAL;
  problem.alibi_slopes.emplace(Shape{1}).fill_normal(random);
  refused(FOVEA_BAD_VALUE, "options.alibi_slopes is given, expected NULL with FOVEA_MPI_STRIPED", FOVEA_MPI_STRIPED);
  problem.alibi_slopes.reset();
  const BackwardCall call(problem, shares, forward, given);
  const AttentionArguments &a = call.forward.arguments;
  CHECK_EQ(fovea_mpi_ring_attention_backward(nullptr, nullptr, &a.query, &a.key, &a.value, &a.out, &a.options,
                                             &call.gradients.gradients, nullptr),
           FOVEA_NULL_POINTER);
  CHECK(everywhere(fovea_mpi_ring_attention_backward(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options,
                                                     nullptr, nullptr) == FOVEA_NULL_POINTER));
  if (world_size() == 1) return;
  const bool last = world_rank() == world_size() - 1;
  const fovea_status status =
      last ? call.run(mpi.get(), nullptr)
           : fovea_mpi_ring_attention(mpi.get(), nullptr, &a.query, &a.key, &a.value, &a.out, &a.options, nullptr);
  CHECK(everywhere(status == FOVEA_BAD_VALUE));
  const std::string said = fovea_mpi_last_error();
  CHECK_MESSAGE(
      said.find(": calls fovea_mpi_ring_attention_backward, expected fovea_mpi_ring_attention") != std::string::npos,
      said);
}

TEST_SUITE_END();

}  // namespace testing
