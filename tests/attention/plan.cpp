// Plans: the same bits as the one-shot call, a workspace of any alignment, a description, runs at the same time.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "support/attention_plan.hpp"

using namespace testing;

namespace {

std::vector<AttentionProblem> some_problems() {
  std::vector<AttentionProblem> problems;
  const AttentionSizes all_sizes[] = {
      {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 40, .key_len = 70, .head_dim = 24, .value_dim = 17},
      {.heads = 8, .kv_heads = 2, .query_len = 1, .key_len = 3000, .head_dim = 16, .value_dim = 16},
      {.query_len = 3, .key_len = 5, .head_dim = 1, .value_dim = 1},
      {.query_len = 150, .key_len = 150, .head_dim = 64, .value_dim = 64},
      {.batch = 0, .query_len = 3, .key_len = 5},
      {.batch = 2, .query_len = 3, .key_len = 0}};
  for (const AttentionSizes &sizes : all_sizes) {
    Random random(base_seed());
    problems.push_back(make_attention(sizes, random));
    problems.push_back(make_attention(sizes, random, Layout::kPadded));
    AttentionProblem &rich = problems.back();
    rich.flags = FOVEA_CAUSAL | FOVEA_AVERAGE_WEIGHTS;
    rich.set_valid_lens(
        std::vector<int64_t>(static_cast<size_t>(sizes.batch),
                             sizes.key_len / 2 + 1 < sizes.key_len ? sizes.key_len / 2 + 1 : sizes.key_len),
        true);
    rich.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return (i + j) % 4 != 0; });
    rich.bias.emplace(Shape{1, 1, 1, sizes.key_len}).fill_normal(random);
    rich.alibi_slopes.emplace(Shape{sizes.heads}).fill([] { return 0.05f; });
    rich.sinks.emplace(Shape{sizes.heads}).fill_normal(random);
  }
  for (int32_t kind : kScoreKinds) {
    for (const AttentionSizes &sizes : all_sizes) {
      Random random(base_seed());
      problems.push_back(make_scored(kind, sizes, 20, random));
      AttentionSizes two_dims = sizes;
      if (takes_two_dims(kind)) two_dims.key_dim = 11;
      problems.push_back(make_scored(kind, two_dims, 7, random, Layout::kPadded));
      problems.back().flags = FOVEA_CAUSAL;
      if (kind != FOVEA_SCORE_GAUSSIAN) continue;
      problems.back().score->sigma = 0;
      problems.back().score->sigmas.emplace(Shape{sizes.heads}).fill([&] { return random.uniform(1, 4); });
    }
  }
  return problems;
}

void check_planned(const fovea_context *context, const AttentionProblem &problem, bool weights) {
  const AttentionResult once = problem.make_result(weights), planned = problem.make_result(weights),
                        again = problem.make_result(weights);
  REQUIRE_OK(problem.run(context, once));
  const AttentionPlan plan(context, problem, planned);
  REQUIRE_OK(plan.run(problem, planned));
  CHECK(same_bits(once, planned));
  // What an earlier run left in the workspace must not matter.
  std::memset(plan.workspace().data(), 0xFF, plan.workspace().size());
  REQUIRE_OK(plan.run(problem, again));
  CHECK(same_bits(once, again));
}

}  // namespace

TEST_SUITE("plan") {
  TEST_CASE("a planned run gives the bits of the one-shot call") {
    for (const AttentionProblem &problem : some_problems()) {
      const std::string what = problem.describe();
      CAPTURE(what);
      for_each_isa([&](const fovea_context *context) {
        for (bool weights : {false, true}) {
          for (Placement placement : {Placement::kEnd, Placement::kBegin, Placement::kMisaligned}) {
            const WithPlacement here(placement);
            check_planned(context, problem, weights);
          }
        }
      });
    }
  }

  TEST_CASE("valid lengths may change from run to run") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 9, .key_len = 200, .head_dim = 8, .value_dim = 8}, random);
    for_each_isa([&](const fovea_context *context) {
      problem.set_valid_lens({200, 200});
      const AttentionPlan plan(context, problem, problem.make_result(false));
      for (int64_t len : {0, 1, 16, 100, 200}) {
        problem.set_valid_lens({len, 200 - len});
        const AttentionResult planned = problem.make_result(false), once = problem.make_result(false);
        REQUIRE_OK(plan.run(problem, planned));
        REQUIRE_OK(problem.run(context, once));
        CHECK(same_bits(planned, once));
      }
      problem.set_valid_lens({5, 201});
      const AttentionResult refused = problem.make_result(false);
      CHECK(plan.run(problem, refused) == FOVEA_BAD_VALUE);
      CHECK(refused.out.untouched());
    });
  }

  TEST_CASE("describe tells the operation, the instruction set, the path; cut to size with its NUL") {
    Random random(base_seed());
    const AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 2, .query_len = 40, .key_len = 70, .head_dim = 24, .value_dim = 17}, random);
    for (const std::string &isa : instruction_sets()) {
      const AttentionPlan plan(shared_context(isa), problem, problem.make_result());
      const std::string text = plan.describe();
      CAPTURE(text);
      CHECK(text.find("op=sdpa") != std::string::npos);
      CHECK(text.find("isa=" + isa) != std::string::npos);
      CHECK(text.find("kernels=" + (isa == "amx" ? "avx512" : isa)) != std::string::npos);  // amx has none for these
      CHECK(text.find("path=") != std::string::npos);
      CHECK(text.find('\n') == std::string::npos);
      for (size_t size : {size_t{1}, size_t{5}, text.size(), text.size() + 1, text.size() + 10}) {
        std::string cut(size + 1, '#');
        CHECK(fovea_plan_describe(plan.get(), cut.data(), size) == text.size());
        CHECK(std::string(cut.c_str()) == text.substr(0, size - 1));
        CHECK(cut[size] == '#');
      }
    }
    CHECK(fovea_plan_describe(nullptr, nullptr, 0) == 0);
    char untouched[4] = "abc";
    CHECK(fovea_plan_describe(nullptr, untouched, sizeof untouched) == 0);
    CHECK(fovea_plan_workspace_size(nullptr) == 0);
    fovea_plan_destroy(nullptr);
  }

  TEST_CASE("describe names the score function") {
    for (int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN}) {
      Random random(base_seed());
      const AttentionProblem problem =
          make_scored(kind, {.query_len = 40, .key_len = 70, .head_dim = 24, .value_dim = 17}, 9, random);
      const std::string text = AttentionPlan(nullptr, problem, problem.make_result()).describe();
      CAPTURE(text);
      CHECK(text.find(score_name(kind)) != std::string::npos);
    }
  }

  TEST_CASE("the workspace of a score function is that of its projections, never Q x K x h") {
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      for (const std::string &isa : instruction_sets()) {
        const auto workspace = [&](int64_t len) {
          Random random(base_seed());
          AttentionProblem problem =
              make_scored(kind, {.query_len = len, .key_len = len, .head_dim = 16, .value_dim = 16}, 32, random);
          problem.want_log_sum_exp = false;
          const AttentionPlan plan(shared_context(isa, 2), problem, problem.make_result(false));
          return static_cast<double>(fovea_plan_workspace_size(plan.get()));
        };
        // Four times the rows: at most four times the projections, with a tenth for padding.
        const double projections = has_hidden(kind) ? 2 * 512 * 32 * 4 : 512 * 16 * 4;
        CHECK(workspace(2048) <= workspace(512) + 3 * 1.1 * projections + 65536);
      }
    }
  }

  // With a tenth for padding and for a number per key, and 4 kB.
  TEST_CASE("the workspace holds the projections that the header names, and no more") {
    const int64_t batch = 2, heads = 4, kv_heads = 2, units = 64;
    const auto holds = [&](int32_t kind, int64_t queries, int64_t keys, int64_t query_dim, int64_t key_dim) {
      const int64_t query_rows = batch * heads * queries, key_rows = batch * kv_heads * keys;
      if (kind == FOVEA_SCORE_DOT) return int64_t{0};
      if (kind == FOVEA_SCORE_GAUSSIAN) return key_rows;
      if (has_hidden(kind)) return (query_rows + key_rows) * units + units * (query_dim + key_dim);
      return std::min(query_rows * key_dim, key_rows * query_dim) + query_dim * key_dim;
    };
    for (int32_t kind : kScoreKinds) {
      for (const auto &lengths : {std::pair<int64_t, int64_t>{40, 500}, {500, 40}, {1, 900}, {300, 300}}) {
        const int64_t queries = lengths.first, keys = lengths.second;  // Clang 14 captures no structured bindings
        CAPTURE(kind);
        CAPTURE(queries);
        CAPTURE(keys);
        Random random(base_seed());
        AttentionSizes sizes = {.batch = batch,
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .query_len = queries,
                                .key_len = keys,
                                .head_dim = 128};
        if (takes_two_dims(kind)) sizes.key_dim = 64;
        const AttentionProblem problem = make_scored(kind, sizes, units, random);
        const auto floats = static_cast<double>(holds(kind, queries, keys, sizes.head_dim, sizes.key_size()));
        for (const std::string &isa : instruction_sets()) {
          if (isa == "amx") continue;  // keeps parts of weights, and more of them
          const std::string text = AttentionPlan(shared_context(isa), problem, problem.make_result(false)).describe();
          CAPTURE(text);
          const double bytes = std::stod(text.substr(text.find("projections=") + 12));
          CHECK(bytes <= 1.1 * 4 * floats + 4096);
        }
      }
    }
  }

  TEST_CASE("parameters may change from run to run, also to other sigmas; sigmas are checked at each run") {
    for_each_isa([](const fovea_context *context) {
      for (int32_t kind : {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN}) {
        Random random(base_seed());
        AttentionProblem problem = make_scored(
            kind, {.heads = 2, .kv_heads = 1, .query_len = 9, .key_len = 50, .head_dim = 8, .value_dim = 8}, 9, random);
        if (kind == FOVEA_SCORE_GAUSSIAN) {
          problem.score->sigma = 0;
          problem.score->sigmas.emplace(Shape{2}).assign({1, 2});
        }
        const AttentionPlan plan(context, problem, problem.make_result());
        for (int repeat = 0; repeat < 3; ++repeat) {
          for (const ScoreFunction::Parameter &parameter : problem.score->parameters()) {
            parameter.tensor->fill([&] { return random.uniform(0.25f, 1); });
          }
          const AttentionResult planned = problem.make_result(), once = problem.make_result();
          REQUIRE_OK(plan.run(problem, planned));
          REQUIRE_OK(problem.run(context, once));
          CHECK(same_bits(planned, once));
        }
        if (kind != FOVEA_SCORE_GAUSSIAN) continue;
        for (float bad : {0.0f, -1.0f, kNan, kInfinity}) {
          problem.score->sigmas->assign({1, bad});
          const AttentionResult refused = problem.make_result();
          CHECK(plan.run(problem, refused) == FOVEA_BAD_VALUE);
          CHECK(std::string(fovea_last_error()).find("buffers.sigmas[1]") == 0);
          CHECK(refused.out.untouched());
        }
      }
    });
  }

  TEST_CASE("a run wants the operands that were planned, and no others, and names each") {
    for (int32_t kind : kScoreKinds) {
      Random random(base_seed());
      AttentionProblem problem = make_scored(
          kind, {.heads = 2, .kv_heads = 1, .query_len = 9, .key_len = 50, .head_dim = 8, .value_dim = 8}, 9, random);
      if (kind % 2 == 0) {
        problem.set_valid_lens({40});
        problem.set_query_offsets({7});
        problem.bias.emplace(Shape{1, 2, 9, 50}).fill_normal(random);
        problem.sinks.emplace(Shape{2}).fill_normal(random);
      } else {
        problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return i < j; });
        problem.alibi_slopes.emplace(Shape{2}).fill_normal(random);
      }
      problem.want_log_sum_exp = kind != FOVEA_SCORE_BILINEAR;
      const AttentionResult result = problem.make_result(kind != FOVEA_SCORE_ADDITIVE);
      const AttentionPlan plan(nullptr, problem, result);
      const fovea_attention_buffers good = buffers_of(AttentionArguments(problem, result));
      struct Member {
        const char *name;
        const void *fovea_attention_buffers::*pointer;
      };
      const Member members[] = {{"query", &fovea_attention_buffers::query},
                                {"key", &fovea_attention_buffers::key},
                                {"value", &fovea_attention_buffers::value},
                                {"valid_lens", &fovea_attention_buffers::valid_lens},
                                {"query_offsets", &fovea_attention_buffers::query_offsets},
                                {"mask", &fovea_attention_buffers::mask},
                                {"bias", &fovea_attention_buffers::bias},
                                {"alibi_slopes", &fovea_attention_buffers::alibi_slopes},
                                {"sinks", &fovea_attention_buffers::sinks},
                                {"query_weight", &fovea_attention_buffers::query_weight},
                                {"key_weight", &fovea_attention_buffers::key_weight},
                                {"weight", &fovea_attention_buffers::weight},
                                {"score_bias", &fovea_attention_buffers::score_bias},
                                {"score_vector", &fovea_attention_buffers::score_vector},
                                {"sigmas", &fovea_attention_buffers::sigmas}};
      for (const Member &member : members) {
        CAPTURE(member.name);
        CAPTURE(kind);
        fovea_attention_buffers buffers = good;
        const bool planned = buffers.*member.pointer != nullptr;
        buffers.*member.pointer = planned ? nullptr : good.query;
        CHECK_EQ(plan.run(buffers), planned ? FOVEA_NULL_POINTER : FOVEA_BAD_VALUE);
        const std::string name = "buffers." + std::string(member.name), start = name + (planned ? " is NULL" : " is ");
        CHECK_EQ(std::string(fovea_last_error()).substr(0, start.size()), start);
        if (planned) {
          buffers = good;
          buffers.out = const_cast<void *>(good.*member.pointer);
          CHECK_EQ(plan.run(buffers), FOVEA_OVERLAP);
          CHECK(std::string(fovea_last_error()).find("overlaps " + name + " (at ") != std::string::npos);
        }
        CHECK(result.out.untouched());
      }
      const struct {
        const char *name;
        void *fovea_attention_buffers::*pointer;
      } outputs[] = {{"out", &fovea_attention_buffers::out},
                     {"log_sum_exp", &fovea_attention_buffers::log_sum_exp},
                     {"weights", &fovea_attention_buffers::weights}};
      std::vector<float> memory(1);
      for (const auto &output : outputs) {
        CAPTURE(output.name);
        fovea_attention_buffers buffers = good;
        const bool planned = buffers.*output.pointer != nullptr;
        buffers.*output.pointer = planned ? nullptr : memory.data();
        CHECK_EQ(plan.run(buffers), planned ? FOVEA_NULL_POINTER : FOVEA_BAD_VALUE);
        const std::string start = "buffers." + std::string(output.name) + (planned ? " is NULL" : " is ");
        CHECK_EQ(std::string(fovea_last_error()).substr(0, start.size()), start);
        CHECK(result.out.untouched());
      }
      REQUIRE_OK(plan.run(good));
    }
  }

  TEST_CASE("the workspace does not grow with Q x K") {
    for (const std::string &isa : instruction_sets()) {
      Random random(base_seed());
      size_t sizes[2];
      for (int n = 0; n < 2; ++n) {
        AttentionProblem problem = make_attention(
            {.query_len = 512 << (2 * n), .key_len = 512 << (2 * n), .head_dim = 16, .value_dim = 16}, random);
        problem.want_log_sum_exp = false;
        const AttentionPlan plan(shared_context(isa, 2), problem, problem.make_result(false));
        sizes[n] = fovea_plan_workspace_size(plan.get());
      }
      CHECK(sizes[1] <= 2 * sizes[0] + 65536);  // 16 times the scores
    }
  }

  TEST_CASE("returned weights are kept in one pass up to 16384 keys, averages never; some megabytes for each thread") {
    Random random(base_seed());
    for (const int64_t key_len : {16384, 16385}) {
      for (const uint32_t flags : {uint32_t{0}, uint32_t{FOVEA_AVERAGE_WEIGHTS}}) {
        AttentionProblem problem = make_attention(
            {.heads = 2, .kv_heads = 2, .query_len = 70, .key_len = key_len, .head_dim = 4, .value_dim = 3}, random);
        problem.flags = flags;
        const bool kept = flags == 0 && key_len == 16384;
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult with = problem.make_result();
          const AttentionPlan plan(context, problem, with), without(context, problem, problem.make_result(false));
          CHECK(plan.describe().find(kept ? "passes=1" : "passes=2") != std::string::npos);
          const size_t sizes[] = {fovea_plan_workspace_size(plan.get()), fovea_plan_workspace_size(without.get())};
          const auto threads = static_cast<size_t>(fovea_context_threads(context));
          CHECK(sizes[0] <= sizes[1] + (kept ? threads * (size_t{5} << 20) : size_t{65536}));
        });
        check_attention(problem);
      }
    }
  }

  TEST_CASE("a run checks its buffers and its workspace") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 2, .query_len = 40, .key_len = 70, .head_dim = 24, .value_dim = 17}, random);
    problem.set_valid_lens({50});
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      const AttentionPlan plan(context, problem, result);
      const fovea_attention_buffers good = buffers_of(AttentionArguments(problem, result));
      const auto refuse = [&](fovea_status expected, const char *argument, auto change) {
        CAPTURE(argument);
        fovea_attention_buffers buffers = good;
        change(buffers);
        CHECK_EQ(plan.run(buffers), expected);
        CHECK(std::string(fovea_last_error()).find(argument) != std::string::npos);
        CHECK(result.out.untouched());
        CHECK(result.log_sum_exp->untouched());
        CHECK(result.weights->untouched());
      };
      refuse(FOVEA_NULL_POINTER, "query", [](fovea_attention_buffers &b) { b.query = nullptr; });
      refuse(FOVEA_NULL_POINTER, "key", [](fovea_attention_buffers &b) { b.key = nullptr; });
      refuse(FOVEA_NULL_POINTER, "value", [](fovea_attention_buffers &b) { b.value = nullptr; });
      refuse(FOVEA_NULL_POINTER, "out", [](fovea_attention_buffers &b) { b.out = nullptr; });
      refuse(FOVEA_NULL_POINTER, "valid_lens", [](fovea_attention_buffers &b) { b.valid_lens = nullptr; });
      refuse(FOVEA_NULL_POINTER, "log_sum_exp", [](fovea_attention_buffers &b) { b.log_sum_exp = nullptr; });
      refuse(FOVEA_NULL_POINTER, "weights", [](fovea_attention_buffers &b) { b.weights = nullptr; });
      const uint8_t byte = 1;
      const float number = 1;
      refuse(FOVEA_BAD_VALUE, "mask", [&](fovea_attention_buffers &b) { b.mask = &byte; });
      refuse(FOVEA_BAD_VALUE, "bias", [&](fovea_attention_buffers &b) { b.bias = &number; });
      refuse(FOVEA_BAD_VALUE, "alibi_slopes", [&](fovea_attention_buffers &b) { b.alibi_slopes = &number; });
      refuse(FOVEA_BAD_VALUE, "sinks", [&](fovea_attention_buffers &b) { b.sinks = &number; });
      refuse(FOVEA_BAD_OPTION, "struct_size", [](fovea_attention_buffers &b) { b.struct_size = 0; });
      refuse(FOVEA_OVERLAP, "out", [](fovea_attention_buffers &b) { b.out = const_cast<void *>(b.query); });
      refuse(FOVEA_OVERLAP, "weights", [](fovea_attention_buffers &b) { b.weights = b.out; });

      const size_t size = fovea_plan_workspace_size(plan.get());
      CHECK_EQ(fovea_attention_run(nullptr, &good, plan.workspace().data(), size), FOVEA_NULL_POINTER);
      CHECK_EQ(fovea_attention_run(plan.get(), nullptr, plan.workspace().data(), size), FOVEA_NULL_POINTER);
      if (size > 0) {
        CHECK_EQ(fovea_attention_run(plan.get(), &good, plan.workspace().data(), size - 1), FOVEA_WORKSPACE_TOO_SMALL);
        CHECK(std::string(fovea_last_error()).find(std::to_string(size)) != std::string::npos);
        CHECK_EQ(fovea_attention_run(plan.get(), &good, nullptr, size), FOVEA_NULL_POINTER);
      }
      CHECK(result.out.untouched());
      REQUIRE_OK(plan.run(good));
    });
  }

  TEST_CASE("one plan, many threads, each with its own workspace") {
    Random random(base_seed());
    const AttentionProblem problem = make_attention(
        {.heads = 4, .kv_heads = 2, .query_len = 30, .key_len = 300, .head_dim = 16, .value_dim = 16}, random);
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult expected = problem.make_result(false);
      REQUIRE_OK(problem.run(context, expected));
      const AttentionPlan plan(context, problem, expected);
      std::vector<AttentionResult> results;
      for (int n = 0; n < 8; ++n) results.push_back(problem.make_result(false));
      std::vector<fovea_status> statuses(8, FOVEA_INTERNAL_ERROR);
      std::vector<std::thread> threads;
      for (size_t n = 0; n < 8; ++n) {
        threads.emplace_back([&, n] {
          const GuardedMemory workspace(fovea_plan_workspace_size(plan.get()));
          const fovea_attention_buffers buffers = buffers_of(AttentionArguments(problem, results[n]));
          for (int repeat = 0; repeat < 5; ++repeat) {
            statuses[n] = fovea_attention_run(plan.get(), &buffers, workspace.data(), workspace.size());
          }
        });
      }
      for (std::thread &thread : threads) thread.join();
      for (size_t n = 0; n < 8; ++n) {
        CHECK(statuses[n] == FOVEA_OK);
        CHECK(same_bits(results[n], expected));
      }
    });
  }
}
