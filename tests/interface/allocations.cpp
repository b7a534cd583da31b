// Planned runs and packed matmuls allocate nothing: counted over every thread of a program whose malloc counts.
#include <doctest/doctest.h>

#include "support/allocation_count.hpp"
#include "support/attention_plan.hpp"
#include "support/creation.hpp"
#include "support/multi_head.hpp"
#include "support/operation_call.hpp"
#include "support/ragged.hpp"
#include "support/thread_pool.hpp"

using namespace testing;

namespace {

// How many of the runs allocated. oneTBB's scheduler sets up its threads and pools in the first ones.
template <typename Run>
int runs_that_allocate(Run run, int warm_up, int runs) {
  for (int n = 0; n < warm_up; ++n) run();
  int allocating = 0;
  for (int n = 0; n < runs; ++n) {
    const int64_t before = allocation_count();
    run();
    allocating += allocation_count() != before ? 1 : 0;
  }
  return allocating;
}

std::vector<AttentionProblem> problems() {
  Random random(base_seed());
  std::vector<AttentionProblem> list;
  list.push_back(make_attention(
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 100, .key_len = 150, .head_dim = 32, .value_dim = 32},
      random));
  list.push_back(make_attention(
      {.heads = 8, .kv_heads = 2, .query_len = 1, .key_len = 4000, .head_dim = 32, .value_dim = 32}, random));
  list.push_back(make_attention({.query_len = 2, .key_len = 4, .head_dim = 8, .value_dim = 8}, random));
  for (int32_t kind : kScoreKinds) {
    for (int64_t query_len : {1, 60}) {
      list.push_back(make_scored(
          kind, {.heads = 4, .kv_heads = 2, .query_len = query_len, .key_len = 300, .head_dim = 16, .value_dim = 16},
          24, random));
    }
  }
  for (AttentionProblem &problem : list)
    problem.set_valid_lens(std::vector<int64_t>(static_cast<size_t>(problem.sizes.batch), 3));
  return list;
}

void check_no_allocation(const fovea_context *context, int warm_up) {
  for (const AttentionProblem &problem : problems()) {
    for (bool weights : {false, true}) {
      const AttentionResult result = problem.make_result(weights);
      const AttentionPlan plan(context, problem, result);
      const fovea_attention_buffers buffers = buffers_of(AttentionArguments(problem, result));
      fovea_status worst = FOVEA_OK;
      const auto run = [&] {
        const fovea_status status = plan.run(buffers);
        if (status != FOVEA_OK) worst = status;
      };
      CHECK(runs_that_allocate(run, warm_up, 100) == 0);
      CHECK(worst == FOVEA_OK);
    }
  }
}

// Two steps in turn, each set and run for two layers.
void check_no_allocation_of_steps(const fovea_context *context, int warm_up, int64_t page_size) {
  Random random(base_seed());
  std::vector<AttentionProblem> sequences[2];
  for (int n = 0; n < 2; ++n) {
    for (const auto &[query_len, key_len] : {std::pair<int64_t, int64_t>{1, 900}, {70, 130}, {1, 20}}) {
      sequences[n].push_back(make_attention({.heads = 4,
                                             .kv_heads = 2,
                                             .query_len = query_len,
                                             .key_len = key_len - n * 3,
                                             .head_dim = 32,
                                             .value_dim = 32},
                                            random));
    }
  }
  const Ragged first(sequences[0], {.page_size = page_size, .spare = 10}),
      second(sequences[1], {.page_size = page_size});
  OwnSchedule schedule;
  REQUIRE_OK(first.create(context, &schedule));
  const GuardedMemory workspace(size_t{64} << 20);
  fovea_status worst = FOVEA_OK;
  const auto note = [&](fovea_status status) { worst = status == FOVEA_OK ? worst : status; };
  const fovea_attention_buffers buffers = first.buffers();
  const auto run = [&] {
    for (const Ragged *step : {&second, &first}) {
      note(fovea_schedule_set(schedule.get(), &step->step()));
      if (step == &second) continue;
      for (int layer = 0; layer < 2; ++layer) {
        note(fovea_schedule_run(schedule.get(), &buffers, workspace.data(), workspace.size()));
      }
    }
  };
  CHECK(runs_that_allocate(run, warm_up, 30) == 0);
  CHECK(worst == FOVEA_OK);
}

// Additive attention of so many queries and one key, of which the context has to hold the projections.
struct Projecting {
  explicit Projecting(int64_t query_len) : problem(make(query_len)), result(problem.make_result(false)) {}
  static AttentionProblem make(int64_t query_len) {
    Random random(base_seed());
    return make_scored(FOVEA_SCORE_ADDITIVE, {.query_len = query_len, .key_len = 1}, 1024, random);
  }
  AttentionProblem problem;
  AttentionResult result;
};

}  // namespace

TEST_SUITE("allocations") {
  TEST_CASE("the counter counts") {
    if (FOVEA_TEST_COUNTS_ALLOCATIONS == 0) {
      MESSAGE("skipped: this build's malloc cannot be replaced (sanitizer or not glibc)");
      return;
    }
    int *volatile kept = nullptr;
    const int64_t before = allocation_count();
    kept = new int(1);
    CHECK(allocation_count() == before + 1);
    delete kept;
  }

  TEST_CASE("a planned run on one thread") {
    for (const std::string &isa : instruction_sets()) check_no_allocation(shared_context(isa, 1), 1);
  }

  TEST_CASE("a planned run on oneTBB's threads, once they are up") {
    for (const std::string &isa : instruction_sets()) check_no_allocation(shared_context(isa), 200);
  }

  TEST_CASE("a planned run on the caller's own threads") {
    for (const std::string &isa : instruction_sets()) {
      const PoolContext context(isa, 4, 7);
      REQUIRE(context.get() != nullptr);
      check_no_allocation(context.get(), 1);
      CHECK(context.pool().loops() > 0);
    }
  }

  TEST_CASE("a schedule's steps, set and run: over packed keys and over pages") {
    for (const std::string &isa : instruction_sets()) {
      for (const int64_t page_size : {0, 16}) {
        check_no_allocation_of_steps(shared_context(isa, 1), 1, page_size);
        check_no_allocation_of_steps(shared_context(isa), 200, page_size);
      }
    }
  }

  TEST_CASE("a planned step over prepared keys") {
    for (int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      Random random(base_seed());
      const AttentionProblem problem =
          make_scored(kind, {.batch = 3, .query_len = 1, .key_len = 300, .head_dim = 16, .value_dim = 16}, 24, random);
      const AttentionSizes &s = problem.sizes;
      const AttentionResult result = problem.make_result();
      const ScoreArguments score(*problem.score);
      const fovea_tensor key = problem.key.view();
      for (const std::string &isa : instruction_sets()) {
        const fovea_context *context = shared_context(isa, 1);
        fovea_prepared_keys *keys = nullptr;
        REQUIRE_OK(prepared_keys_create(context, &score.score, s.batch, s.kv_heads, s.key_len, s.head_dim, s.key_size(),
                                        &keys));
        REQUIRE_OK(fovea_prepared_keys_append(context, keys, &key));
        const AttentionPlan plan(context, problem, keys, result);
        const fovea_attention_buffers buffers = buffers_without_key(problem, result);
        fovea_status status = FOVEA_OK;
        CHECK(runs_that_allocate([&] { status = plan.run(buffers); }, 1, 100) == 0);
        CHECK(status == FOVEA_OK);
        fovea_prepared_keys_destroy(keys);
      }
    }
  }

  TEST_CASE("a refused run") {
    for (const std::string &isa : instruction_sets()) {
      const std::vector<AttentionProblem> list = problems();
      const AttentionProblem &problem = list.front();
      const AttentionResult result = problem.make_result();
      const AttentionPlan plan(shared_context(isa, 1), problem, result);
      fovea_attention_buffers buffers = buffers_of(AttentionArguments(problem, result));
      buffers.key = nullptr;
      CHECK(runs_that_allocate([&] { static_cast<void>(plan.run(buffers)); }, 1, 10) == 0);
    }
  }

  // Scratch memory for projections and norms of keys that no query asks for.
  TEST_CASE("attention and layers with nothing to compute") {
    for (const std::string &isa : instruction_sets()) {
      const fovea_context *context = shared_context(isa, 1);
      const AttentionSizes sizes = {
          .heads = 2, .kv_heads = 1, .query_len = 0, .key_len = 70, .head_dim = 8, .value_dim = 8};
      Random random(base_seed());
      for (int32_t kind : kScoreKinds) {
        const AttentionProblem problem = make_scored(kind, sizes, 24, random);
        const AttentionResult result = problem.make_result();
        fovea_status status = FOVEA_INTERNAL_ERROR;
        CHECK(runs_that_allocate([&] { status = problem.run(context, result); }, 0, 1) == 0);
        CHECK(status == FOVEA_OK);
      }
    }
  }

  TEST_CASE("matmul and linear with a packed right-hand side") {
    for (const std::string &isa : instruction_sets()) {
      Random random(base_seed());
      Tensor<float> a({40, 50}), b({50, 60}), c({60});
      for (Tensor<float> *tensor : {&a, &b, &c}) tensor->fill_normal(random);
      const Tensor<float> out({40, 60});
      const fovea_tensor x = a.view(), y = b.view(), z = out.view(), bias = c.view();
      fovea_packed_matrix *packed = nullptr;
      REQUIRE_OK(fovea_matmul_pack(shared_context(isa, 1), &y, nullptr, &packed));
      fovea_status status = FOVEA_OK;
      CHECK(runs_that_allocate([&] { status = fovea_matmul_packed(shared_context(isa, 1), &x, packed, &z); }, 2, 50) ==
            0);
      CHECK(status == FOVEA_OK);
      const fovea_linear_options options = {sizeof options, FOVEA_ACTIVATION_GELU, 0, &bias, &z, nullptr};
      CHECK(runs_that_allocate([&] { status = fovea_linear(shared_context(isa, 1), &x, packed, &z, &options); }, 2,
                               50) == 0);
      CHECK(status == FOVEA_OK);
      fovea_packed_matrix_destroy(packed);
    }
  }

  TEST_CASE("no operation with nothing to compute asks for memory") {
    for (const Operation &operation : all_operations()) {
      // The lists' own plans, handles and workspaces are allocated.
      const bool own = operation.name.find("plan") != std::string::npos || operation.name == "prepared keys" ||
                       operation.name == "linear" || operation.name == "schedule" ||
                       operation.name.find("multi_head") == 0;
      if (own) continue;
      CAPTURE(operation.name);
      for (uint64_t seed = 0; seed < 40; ++seed) {
        Random random(seed);
        CallSizes sizes;
        sizes.context = shared_context(instruction_sets().back(), 1);
        sizes.choices = static_cast<uint64_t>(random.integer(0, INT64_MAX));
        for (int64_t *any : {&sizes.batch, &sizes.queries, &sizes.keys, &sizes.rows, &sizes.columns, &sizes.depth}) {
          *any = random.pick<int64_t>({0, 0, 3, 70});
        }
        if (computes(operation.operands(sizes))) continue;
        const OperationCall call(operation.operands(sizes), seed);
        Tensors pointers;
        for (size_t n = 0; n < call.operands.size(); ++n) {
          pointers.push_back(call.given(n) ? &call.tensors[n] : nullptr);
        }
        const int64_t before = allocation_count();
        static_cast<void>(operation.run(sizes, pointers));
        CHECK(allocation_count() == before);
      }
    }
  }

  TEST_CASE("a context keeps scratch memory for the next call, up to 64 MB") {
    if (FOVEA_TEST_COUNTS_ALLOCATIONS == 0) return;
    fovea_context_options options{};
    options.struct_size = sizeof options;
    options.max_threads = 1;
    fovea_context *context = nullptr;
    REQUIRE_OK(fovea_context_create(&options, &context));
    const Projecting small(1000), large(17000);  // 4 and 70 MB of projected queries
    static_cast<void>(take_largest_allocation());
    REQUIRE_OK(large.problem.run(context, large.result));
    const size_t size = take_largest_allocation();
    CHECK(size > size_t{64} << 20);
    fovea_status status = FOVEA_OK;
    CHECK(runs_that_allocate([&] { status = large.problem.run(context, large.result); }, 1, 2) == 2);
    CHECK(runs_that_allocate([&] { status = small.problem.run(context, small.result); }, 1, 3) == 0);
    CHECK(status == FOVEA_OK);
    fovea_context_destroy(context);
  }

  // A tensor of all scores would be 36 MB here.
  TEST_CASE("no call makes anything of the size of queries x keys") {
    if (FOVEA_TEST_COUNTS_ALLOCATIONS == 0) return;
    constexpr int64_t len = 3000;
    constexpr size_t most = size_t{len} * len * sizeof(float) / 8;
    const fovea_context *context = shared_context(instruction_sets().back(), 2);
    Random random(base_seed());
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      AttentionProblem problem =
          make_scored(kind, {.query_len = len, .key_len = len, .head_dim = 4, .value_dim = 4}, 4, random);
      const AttentionResult result = problem.make_result(false);
      static_cast<void>(take_largest_allocation());
      REQUIRE_OK(problem.run(context, result));
      CHECK(take_largest_allocation() < most);
    }
    Tensor<float> x({len});
    x.fill_normal(random);
    const Tensor<float> out({len});
    const fovea_tensor in = x.view(), to = out.view();
    static_cast<void>(take_largest_allocation());
    REQUIRE_OK(fovea_kernel_regression(context, &in, &in, &in, &to, nullptr));
    CHECK(take_largest_allocation() < most);
  }

  TEST_CASE("multi-head attention takes its scratch memory from the context") {
    if (FOVEA_TEST_COUNTS_ALLOCATIONS == 0) return;
    Random random(base_seed());
    const MultiHead layer = make_multi_head({.batch = 2,
                                             .query_len = 150,
                                             .key_len = 150,
                                             .query_inputs = 64,
                                             .heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = 32,
                                             .value_dim = 32,
                                             .outputs = 64},
                                            Inputs::kOne, random);
    fovea_context_options options{};
    options.struct_size = sizeof options;
    options.max_threads = 1;
    fovea_context *context = nullptr;
    REQUIRE_OK(fovea_context_create(&options, &context));
    const MhaWeights weights = layer.make_weights(context);
    const Tensor<float> out = layer.make_out();
    static_cast<void>(take_largest_allocation());
    fovea_status status = layer.run(context, weights, out);
    const double rows = 2 * 150 * (4 * 32 + 2 * 32 + 2 * 32 + 4 * 32);
    CHECK(static_cast<double>(take_largest_allocation()) <= 1.1 * 4 * rows + (1 << 18));  // and attention's tiles
    CHECK(runs_that_allocate([&] { status = layer.run(context, weights, out); }, 1, 10) == 0);
    CHECK(status == FOVEA_OK);
    fovea_context_destroy(context);
  }
}
