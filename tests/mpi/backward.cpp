// Ring attention's backward pass on whatever number of ranks the program was started with: beside the formula in
// float64, beside one process that makes the calls of fovea/mpi.h, and beside itself.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>

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

// Whether all ranks have rank 0's bits.
bool same_everywhere(const Tensor<float> &mine) {
  const std::vector<float> own = mine.dense();
  std::vector<float> first = own;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
  return everywhere(std::memcmp(first.data(), own.data(), own.size() * sizeof(float)) == 0);
}

// The gradients on every rank, which has its own of the parameters: they must be the same.
GradientTensors put_together(const AttentionProblem &whole, const GradientTensors &given, const RingShares &shares,
                             const GradientTensors &mine) {
  GradientTensors all = unwritten(given);
  put_into(mine.query, shares.queries, whole.rank - 2, &all.query);
  put_into(mine.key, shares.keys, whole.rank - 2, &all.key);
  put_into(mine.value, shares.keys, whole.rank - 2, &all.value);
  for (const auto member : kSummedGradients) {
    if (!(mine.*member)) continue;
    CHECK(same_everywhere(*(mine.*member)));
    (all.*member)->assign((mine.*member)->dense());
  }
  return all;
}

enum class By { bits, formula, both };

void check_backward(fovea_mpi *mpi, const AttentionProblem &whole, const RingShares &shares,
                    const GradientTensors &given, By by = By::both) {
  CAPTURE(shares.order);
  CAPTURE(whole.describe());
  const AttentionResult forward = run_ring(mpi, whole, shares.order, shares.queries, shares.keys);
  const AttentionResult whole_forward = put_together(whole, shares.queries, forward);
  const GradientTensors mine = run_backward_ring(mpi, whole, shares, forward, given);
  CHECK(same_gradients(mine, run_backward_ring(mpi, whole, shares, forward, given)));
  const GradientTensors all = put_together(whole, given, shares, mine);
  if (world_rank() != 0) return;
  if (by == By::formula) return judge_gradients(whole, given, all);
  if (world_size() > 1) {
    CHECK(same_gradients(
        all, backward_in_one_process(whole, given, whole_forward, shares.queries, shares.keys, one_thread())));
  } else {
    const GradientTensors alone = unwritten(given);
    REQUIRE_OK(run_backward(one_thread(), whole, whole_forward, alone));
    CHECK(same_gradients(all, alone));
  }
  if (by != By::bits) judge_gradients(whole, given, all);
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
    check_backward(mpi.get(), problem, RingShares(order, even_lengths(length), even_lengths(length)), given, By::bits);
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

TEST_CASE("backward: gradients of rows and keys that nobody attends are 0, and what they hold reaches nothing") {
  const OwnHandle mpi = make_handle();
  for (const int32_t order : kOrders3) {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 40, .key_len = 40, .head_dim = 8, .value_dim = 8}, random);
    problem.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
    problem.query_offset = -7;  // queries 0 to 6 attend nothing, nor does anybody attend keys 33 and later
    problem.empty_rows = FOVEA_EMPTY_ROWS_NAN;
    const GradientTensors given = make_gradients(problem, random, true);
    for (int64_t d = 0; d < 8; ++d) {
      problem.key(0, 0, 35, d) = problem.value(1, 0, 38, d) = kNan;
      problem.query(1, 1, 3, d) = given.out(1, 0, 2, d) = kInfinity;
    }
    const RingShares shares(order, even_lengths(40), even_lengths(40));
    const AttentionResult forward = run_ring(mpi.get(), problem, order, shares.queries, shares.keys);
    const GradientTensors all =
        put_together(problem, given, shares, run_backward_ring(mpi.get(), problem, shares, forward, given));
    bool zero = true, finite = true;
    for_each_index(all.query.shape(), [&](const Shape &at) {
      zero = zero && (at[2] >= 7 || all.query.at(at) == 0.0f);
      finite = finite && std::isfinite(all.query.at(at));
    });
    for (const Tensor<float> *tensor : {&all.key, &all.value}) {
      for_each_index(tensor->shape(), [&](const Shape &at) {
        zero = zero && (at[2] < 33 || tensor->at(at) == 0.0f);
        finite = finite && std::isfinite(tensor->at(at));
      });
    }
    CHECK(zero);
    CHECK(finite);
    // Not the bits of one process, which masks where ranks have windows: that is other arithmetic beside what is not
    // finite.
    check_backward(mpi.get(), problem, shares, given, By::formula);
  }
}

TEST_CASE("backward: messages in pieces change no bit, nor do more threads") {
  const OwnHandle usual = make_handle(), short_messages = make_handle(100),
                  threads = make_handle(0, shared_context(instruction_sets().back(), 3));
  for (const int32_t kind : kScoreKinds) {
    CAPTURE(kind);
    Random random(base_seed());
    AttentionProblem problem = make_scored(
        kind, {.heads = 6, .kv_heads = 3, .query_len = 131, .key_len = 131, .head_dim = 16, .value_dim = 16}, 8,
        random);
    problem.flags = FOVEA_CAUSAL;
    const GradientTensors given = make_gradients(problem, random);
    for (const int32_t order : kOrders3) {
      const RingShares shares(order, even_lengths(131), even_lengths(131));
      const AttentionResult forward = run_ring(usual.get(), problem, order, shares.queries, shares.keys);
      const GradientTensors expected = run_backward_ring(usual.get(), problem, shares, forward, given);
      CHECK(same_gradients(expected, run_backward_ring(short_messages.get(), problem, shares, forward, given)));
      CHECK(same_gradients(expected, run_backward_ring(threads.get(), problem, shares, forward, given)));
    }
  }
}

TEST_CASE("backward: 16 bits: the float32 gradients of these numbers, rounded once") {
  const OwnHandle mpi = make_handle();
  for (int64_t n = 0; n < 12; ++n) {
    Random random(base_seed() + static_cast<uint64_t>(n));
    CAPTURE(n);
    AttentionProblem problem = make_scored(
        n % 2 == 0 ? FOVEA_SCORE_ADDITIVE : FOVEA_SCORE_BILINEAR,
        {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 45, .key_len = 45, .head_dim = 16, .value_dim = 20}, 8,
        random);
    problem.flags = random.chance(0.5) ? static_cast<uint32_t>(FOVEA_CAUSAL) : 0u;
    const GradientTensors given = make_gradients(problem, random);
    const auto any_type = [&] { return random.pick({FOVEA_F32, FOVEA_F16, FOVEA_BF16}); };
    const auto round = [](const Tensor<float> &tensor, fovea_dtype type) {
      const std::vector<float> exact = tensor.dense();
      size_t next = 0;
      const_cast<Tensor<float> &>(tensor).fill([&] { return rounded_to(exact[next++], type); });
    };
    fovea_dtype types[5];
    for (fovea_dtype &type : types) type = any_type();
    round(problem.query, types[0]);
    round(problem.key, types[1]);
    round(problem.value, types[2]);
    const RingShares shares(kOrders3[n % 3], even_lengths(45), even_lengths(45));
    AttentionResult forward = run_ring(mpi.get(), problem, shares.order, shares.queries, shares.keys);
    round(forward.out, types[3]);
    round(given.out, types[4]);
    const GradientTensors expected = run_backward_ring(mpi.get(), problem, shares, forward, given);
    BackwardCall call(problem, shares, forward, given);
    std::vector<NarrowTensor> narrow;
    narrow.reserve(16);
    const auto as_type = [&](const Tensor<float> &floats, fovea_dtype type, fovea_tensor *view) {
      if (type == FOVEA_F32) return;
      narrow.emplace_back(floats, type);
      *view = narrow.back().view();
    };
    AttentionArguments &a = call.forward.arguments;
    as_type(call.forward.query, types[0], &a.query);
    as_type(call.forward.key, types[1], &a.key);
    as_type(call.forward.value, types[2], &a.value);
    as_type(call.forward.result.out, types[3], &a.out);
    as_type(call.mine.out, types[4], &call.gradients.out);
    struct Output {
      const Tensor<float> *floats, *wanted;
      fovea_tensor *view;
    };
    std::vector<Output> outputs = {{&call.mine.query, &expected.query, &call.gradients.query},
                                   {&call.mine.key, &expected.key, &call.gradients.key},
                                   {&call.mine.value, &expected.value, &call.gradients.value}};
    if (call.mine.weight) outputs.push_back({&*call.mine.weight, &*expected.weight, &call.gradients.weight});
    if (call.mine.query_weight) {
      outputs.push_back({&*call.mine.query_weight, &*expected.query_weight, &call.gradients.query_weight});
      outputs.push_back({&*call.mine.score_vector, &*expected.score_vector, &call.gradients.score_vector});
    }
    for (const Output &output : outputs) as_type(*output.floats, any_type(), output.view);
    const fovea_mpi_ring_options ring = {sizeof ring, shares.order, 0};
    need(call.run(mpi.get(), &ring), "fovea_mpi_ring_attention_backward");
    bool same = true;
    for (const Output &output : outputs) {
      for_each_index(output.wanted->shape(), [&](const Shape &at) {
        int64_t offset = 0;
        for (size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * output.view->strides[axis];
        const fovea_dtype type = output.view->dtype;
        const float got = type == FOVEA_F32 ? static_cast<const float *>(output.view->data)[offset]
                                            : widened(static_cast<const uint16_t *>(output.view->data)[offset], type);
        same = same && got == rounded_to(output.wanted->at(at), type);
      });
    }
    CHECK(same);
  }
}

TEST_CASE("backward: keys and values that travel in 16 bits: the gradients of rounded ones") {
  const OwnHandle mpi = make_handle();
  for (const fovea_dtype transport : {FOVEA_F16, FOVEA_BF16}) {
    for (const int32_t order : kOrders3) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 50, .key_len = 50, .head_dim = 16, .value_dim = 24},
          random);
      problem.flags = FOVEA_CAUSAL;
      const GradientTensors given = make_gradients(problem, random);
      const RingShares shares(order, even_lengths(50), even_lengths(50));
      const AttentionResult forward = run_ring(mpi.get(), problem, order, shares.queries, shares.keys);
      const auto bytes_sent = [&] {
        fovea_mpi_figures figures = {};
        figures.struct_size = sizeof figures;
        REQUIRE_EQ(fovea_mpi_last_figures(mpi.get(), &figures), FOVEA_OK);
        return figures.bytes_sent;
      };
      const int64_t of_blocks = bytes_sent();
      const GradientTensors mine = run_backward_ring(mpi.get(), problem, shares, forward, given, transport);
      const int64_t short_bytes = bytes_sent();
      for (Tensor<float> *tensor : {&problem.key, &problem.value}) {
        const std::vector<float> exact = tensor->dense();
        size_t next = 0;
        if (world_size() > 1) tensor->fill([&] { return rounded_to(exact[next++], transport); });
      }
      CHECK(same_gradients(mine, run_backward_ring(mpi.get(), problem, shares, forward, given)));
      CHECK_EQ(bytes_sent(), short_bytes + of_blocks / 2);  // gradients in as many bytes as ever
    }
  }
}

TEST_CASE("backward: a gradient has the bits that it has where no other is wanted, and only what it needs travels") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  AttentionProblem problem = make_scored(
      FOVEA_SCORE_GAUSSIAN,
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 60, .key_len = 60, .head_dim = 8, .value_dim = 8}, 0,
      random);
  problem.alibi_slopes.emplace(Shape{4}).fill_normal(random);
  problem.sinks.emplace(Shape{4}).fill_normal(random);
  const GradientTensors given = make_gradients(problem, random);
  const RingShares shares(FOVEA_MPI_ZIGZAG, even_lengths(60), even_lengths(60));
  const AttentionResult forward = run_ring(mpi.get(), problem, shares.order, shares.queries, shares.keys);
  const GradientTensors expected = run_backward_ring(mpi.get(), problem, shares, forward, given);
  struct Output {
    const fovea_tensor *fovea_attention_gradients::*member;
    std::function<const Tensor<float> &(const GradientTensors &)> of;
  };
  const Output outputs[] = {{&fovea_attention_gradients::query, [](const GradientTensors &g) -> auto &{return g.query;
}
}  // namespace testing
, {&fovea_attention_gradients::key, [](const GradientTensors &g) -> auto &{return g.key;
}
}
, {&fovea_attention_gradients::value, [](const GradientTensors &g) -> auto &{return g.value;
}
}
, {&fovea_attention_gradients::alibi_slopes, [](const GradientTensors &g) -> auto &{return *g.alibi_slopes;
}
}
, {&fovea_attention_gradients::sinks, [](const GradientTensors &g) -> auto &{return *g.sinks;
}
}
, {&fovea_attention_gradients::sigmas, [](const GradientTensors &g) -> auto &{return *g.sigmas;
}
}
,
}
;
const auto run = [&](const fovea_tensor *fovea_attention_gradients::*wanted) {
  BackwardCall call(problem, shares, forward, given);
  for (const Output &output : outputs) {
    if (output.member != wanted) call.gradients.gradients.*output.member = nullptr;
  }
  const fovea_mpi_ring_options ring = {sizeof ring, shares.order, 0};
  need(call.run(mpi.get(), &ring), "fovea_mpi_ring_attention_backward");
  for (const Output &output : outputs) {
    const Tensor<float> &got = output.of(call.mine);
    if (output.member == wanted) {
      CHECK(same_numbers(got, output.of(expected)));
    } else {
      CHECK(got.untouched());
    }
  }
  fovea_mpi_figures figures = {};
  figures.struct_size = sizeof figures;
  REQUIRE_EQ(fovea_mpi_last_figures(mpi.get(), &figures), FOVEA_OK);
  return figures.bytes_sent;
};
const int64_t of_query = run(outputs[0].member), of_key = run(outputs[1].member), of_value = run(outputs[2].member);
if (world_size() > 1) {
  CHECK(of_key > of_query);  // gradients of keys travel beside keys and values
  CHECK_EQ(of_key, of_value);
}
run(outputs[3].member);
CHECK_EQ(run(outputs[4].member), world_size() > 1 ? 4 * static_cast<int64_t>(sizeof(double)) : 0);
run(outputs[5].member);
CHECK_EQ(run(nullptr), 0);
}

TEST_CASE("backward: blocks and gradients go no further than to the last rank that attends them") {
  const OwnHandle mpi = make_handle();
  Random random(base_seed());
  const int ranks = world_size(), rank = world_rank();
  const int64_t each = 8, length = each * ranks;
  AttentionProblem problem =
      make_attention({.query_len = length, .key_len = length, .head_dim = 8, .value_dim = 8}, random);
  const GradientTensors given = make_gradients(problem, random);
  const RingShares shares(FOVEA_MPI_CONTIGUOUS, even_lengths(length), even_lengths(length));
  const int64_t block = each * (8 + 8) * static_cast<int64_t>(sizeof(float));  // so are its gradients
  const auto run = [&] {
    const AttentionResult forward = run_ring(mpi.get(), problem, shares.order, shares.queries, shares.keys);
    run_backward_ring(mpi.get(), problem, shares, forward, given);
    fovea_mpi_figures figures = {};
    figures.struct_size = sizeof figures;
    REQUIRE_EQ(fovea_mpi_last_figures(mpi.get(), &figures), FOVEA_OK);
    return figures;
  };
  fovea_mpi_figures figures = run();
  if (ranks == 1) return;
  CHECK_EQ(figures.blocks_attended, ranks);
  CHECK_EQ(figures.blocks_passed_by, 0);
  CHECK_EQ(figures.bytes_sent, 2 * block * (ranks - 1));
  problem.flags = FOVEA_CAUSAL;  // rank r attends 0 to r, and sends those on, and gradients of all but its own
  figures = run();
  CHECK_EQ(figures.blocks_attended, rank + 1);
  CHECK_EQ(figures.blocks_passed_by, ranks - 1 - rank);
  CHECK_EQ(figures.bytes_sent, block * ((rank + 1 < ranks ? rank + 1 : 0) + rank));
  problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;  // itself and the rank before
  problem.window_left = each;
  figures = run();
  CHECK_EQ(figures.blocks_attended, rank == 0 ? 1 : 2);
  CHECK_EQ(figures.bytes_sent, block * ((rank + 1 < ranks ? 1 : 0) + (rank > 0 ? 1 : 0)));
}

TEST_SUITE_END();

}  // namespace testing
