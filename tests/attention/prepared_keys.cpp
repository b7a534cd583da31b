// Keys prepared once: the bits of the call that is given them whole, however they were appended; truncation, capacity,
// sharing.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "errors.hpp"
#include "support/attention_plan.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

namespace {

constexpr int32_t kPreparable[] = {FOVEA_SCORE_BILINEAR, FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT};

// The bits of the one-shot call; of BILINEAR, whose one-shot call may project the queries instead, its accuracy.
void check_same(const fovea_context *context, const AttentionProblem &problem, const Keys &keys) {
  const std::string what = problem.describe();
  CAPTURE(what);
  REQUIRE(fovea_prepared_keys_length(keys.get()) == problem.sizes.key_len);
  for (bool weights : {false, true}) {
    CAPTURE(weights);
    const AttentionResult prepared = problem.make_result(weights), once = problem.make_result(weights);
    REQUIRE_OK(attend(context, problem, keys, prepared));
    const AttentionResult planned = problem.make_result(weights);
    const AttentionPlan plan(context, problem, keys.get(), planned);
    REQUIRE_OK(plan.run(buffers_without_key(problem, planned)));
    CHECK(same_bits(prepared, planned));
    if (problem.score->kind == FOVEA_SCORE_BILINEAR) {
      check_result(problem, prepared);
      continue;
    }
    REQUIRE_OK(problem.run(context, once));
    CHECK(same_bits(prepared, once));
  }
}

}  // namespace

TEST_SUITE("prepared keys") {
  TEST_CASE("the same bits as the keys themselves, and as accurate") {
    for (int32_t kind : kPreparable) {
      for (int64_t query_len : {0, 1, 3, 40, 90}) {
        for (int64_t key_len : {0, 1, 17, 64, 300}) {
          AttentionProblem problem = make_prepared_problem(kind, query_len, key_len);
          for_each_isa([&](const fovea_context *context) {
            const Keys keys = make_full(context, problem);
            check_same(context, problem, keys);
            const AttentionResult result = problem.make_result();
            REQUIRE_OK(attend(context, problem, keys, result));
            check_result(problem, result);
          });
        }
      }
    }
  }

  TEST_CASE("with masks and options") {
    for (int32_t kind : kPreparable) {
      for (int64_t query_len : {1, 3, 40}) {
        AttentionProblem problem = make_prepared_problem(kind, query_len, 130);
        for_each_isa([&](const fovea_context *context) {
          const Keys keys = make_full(context, problem);
          problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
          problem.window_left = 50;
          check_same(context, problem, keys);
          problem.flags = FOVEA_AVERAGE_WEIGHTS;
          problem.set_valid_lens({0, 70});
          check_same(context, problem, keys);
          problem.flags = 0;
          problem.dropout = 0.4f;
          problem.dropout_seed = 7;
          check_same(context, problem, keys);
          problem.dropout = 0;
          problem.valid_lens32.reset();
          problem.set_mask([](int64_t, int64_t h, int64_t i, int64_t j) { return (h + i + j) % 3 != 0; });
          problem.scale = 0.5f;
          problem.softcap = 2;
          problem.sinks.emplace(Shape{4}).fill([] { return 0.25f; });
          check_same(context, problem, keys);
          problem.mask.reset();
          problem.sinks.reset();
          problem.scale = problem.softcap = 0;
        });
      }
    }
  }

  TEST_CASE("each hidden size, each rank, many keys") {
    for (int32_t kind : kPreparable) {
      for (int64_t hidden : {1, 2, 3, 16, 17, 64, 65, 256}) {
        if (!has_hidden(kind) && hidden > 1) continue;
        const AttentionProblem problem = make_prepared_problem(kind, 1, 1500, hidden);
        for_each_isa([&](const fovea_context *context) { check_same(context, problem, make_full(context, problem)); });
      }
      for (int rank : {2, 3}) {
        Random random(base_seed());
        const AttentionProblem problem = make_scored(
            kind,
            {.batch = rank == 2 ? 1 : 3, .query_len = 5, .key_len = 70, .head_dim = 8, .value_dim = 6, .key_dim = 9},
            13, random, Layout::kPadded, rank);
        for_each_isa([&](const fovea_context *context) { check_same(context, problem, make_full(context, problem)); });
      }
    }
  }

  TEST_CASE("appended in pieces of 1, 7, 16 and more; keys that lie anyhow") {
    for (int32_t kind : kPreparable) {
      for (int64_t step : {1, 7, 16, 33, 100}) {
        for (Layout layout : {Layout::kHeadsFirst, Layout::kPadded}) {
          Random random(base_seed());
          const AttentionProblem problem = make_scored(kind,
                                                       {.batch = 2,
                                                        .heads = 4,
                                                        .kv_heads = 2,
                                                        .query_len = 3,
                                                        .key_len = 131,
                                                        .head_dim = 10,
                                                        .value_dim = 6,
                                                        .key_dim = 17},
                                                       20, random, layout);
          for_each_isa([&](const fovea_context *context) {
            const Keys keys = make_keys(context, problem, 150);
            for (int64_t begin = 0; begin < 131; begin += step) {
              append(context, keys, problem, begin, std::min<int64_t>(begin + step, 131));
            }
            append(context, keys, problem, 5, 5);  // none
            check_same(context, problem, keys);
          });
        }
      }
    }
  }

  TEST_CASE("a decoder: one key more at each step") {
    for (int32_t kind : kPreparable) {
      const AttentionProblem whole = make_prepared_problem(kind, 1, 40);
      for_each_isa([&](const fovea_context *context) {
        const Keys keys = make_keys(context, whole, 40);
        for (int64_t len = 1; len <= 40; ++len) {
          append(context, keys, whole, len - 1, len);
          AttentionProblem step = make_prepared_problem(kind, 1, len);
          for_each_index(step.key.shape(), [&](const Shape &at) { step.key.at(at) = whole.key.at(at); });
          for_each_index(step.value.shape(), [&](const Shape &at) { step.value.at(at) = whole.value.at(at); });
          step.query.assign(whole.query.dense());
          step.score = std::move(make_prepared_problem(kind, 1, 40).score);
          check_same(context, step, keys);
        }
      });
    }
  }

  TEST_CASE("truncated and appended again: what was forgotten leaves no trace") {
    for (int32_t kind : kPreparable) {
      const AttentionProblem problem = make_prepared_problem(kind, 3, 100);
      AttentionProblem spoiled = make_prepared_problem(kind, 3, 100);
      spoiled.key.fill([n = 0]() mutable { return n++ % 2 == 0 ? kNan : 1e30f; });
      for_each_isa([&](const fovea_context *context) {
        const Keys keys = make_keys(context, problem, 100);
        const size_t size = fovea_prepared_keys_size(keys.get());
        append(context, keys, spoiled, 0, 90);
        REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 0));
        CHECK(fovea_prepared_keys_length(keys.get()) == 0);
        append(context, keys, problem, 0, 35);
        append(context, keys, spoiled, 35, 100);
        REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 100));
        REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 33));
        append(context, keys, problem, 33, 100);
        check_same(context, problem, keys);
        CHECK(fovea_prepared_keys_size(keys.get()) == size);
      });
    }
  }

  TEST_CASE("a plan attends what the keys hold when it runs, as many as when it was made") {
    for (int32_t kind : kPreparable) {
      for (int64_t query_len : {1, 40}) {
        const AttentionProblem problem = make_prepared_problem(kind, query_len, 70);
        for_each_isa([&](const fovea_context *context) {
          const Keys keys = make_keys(context, problem, 100);
          append(context, keys, problem, 30, 70);
          append(context, keys, problem, 0, 30);
          const AttentionResult result = problem.make_result(), expected = problem.make_result();
          const AttentionPlan plan(context, problem, keys.get(), result);
          const fovea_attention_buffers buffers = buffers_without_key(problem, result);
          REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 20));
          check_refusal(plan.run(buffers), FOVEA_BAD_SHAPE, {"keys", "20", "70"});
          REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 0));
          append(context, keys, problem, 0, 70);
          append(context, keys, problem, 3, 4);
          check_refusal(plan.run(buffers), FOVEA_BAD_SHAPE, {"keys", "71", "70"});
          CHECK(result.out.untouched());
          REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 70));
          REQUIRE_OK(plan.run(buffers));
          REQUIRE_OK(attend(context, problem, keys, expected));
          CHECK(same_bits(result, expected));
        });
      }
    }
  }

  // With a tenth for padding, and 4 kB.
  TEST_CASE("a plan's workspace is that of the projected queries") {
    for (int32_t kind : kPreparable) {
      for (int64_t query_len : {1, 40, 300}) {
        const AttentionProblem problem = make_prepared_problem(kind, query_len, 70, 64);
        for_each_isa([&](const fovea_context *context) {
          const Keys keys = make_full(context, problem);
          const std::string text = AttentionPlan(context, problem, keys.get(), problem.make_result(false)).describe();
          CAPTURE(text);
          const double bytes = std::stod(text.substr(text.find("projections=") + 12));
          CHECK(bytes <= (has_hidden(kind) ? 1.1 * 4 * 2 * 4 * static_cast<double>(query_len) * 64 + 4096 : 0));
        });
      }
    }
  }

  TEST_CASE("past the capacity nothing is appended") {
    for (int32_t kind : kPreparable) {
      const AttentionProblem problem = make_prepared_problem(kind, 2, 30), longer = make_prepared_problem(kind, 2, 60);
      for_each_isa([&](const fovea_context *context) {
        const Keys keys = make_keys(context, problem, 30);
        append(context, keys, problem, 0, 20);
        for (int64_t count : {11, 12, 60}) {
          const fovea_tensor part = slice_positions(longer.key, 0, count);
          check_refusal(fovea_prepared_keys_append(context, keys.get(), &part), FOVEA_BAD_SHAPE,
                        {"key", std::to_string(count)});
          CHECK(fovea_prepared_keys_length(keys.get()) == 20);
        }
        append(context, keys, problem, 20, 30);
        check_same(context, problem, keys);
        const Keys none = make_keys(context, problem, 0);
        const fovea_tensor one = slice_positions(longer.key, 0, 1);
        check_refusal(fovea_prepared_keys_append(context, none.get(), &one), FOVEA_BAD_SHAPE, {"key", "1"});
      });
    }
  }

  TEST_CASE("the parameters are copied") {
    for (int32_t kind : kPreparable) {
      for_each_isa([&](const fovea_context *context) {
        const AttentionProblem problem = make_prepared_problem(kind, 3, 50);
        AttentionProblem gone = make_prepared_problem(kind, 3, 50);
        const Keys keys = make_keys(context, gone, 50);
        append(context, keys, gone, 0, 20);
        for (const auto &parameter : gone.score->parameters()) parameter.tensor->fill([] { return kNan; });
        gone.key.fill([] { return kNan; });
        gone.score.reset();
        append(context, keys, problem, 20, 50);
        check_same(context, problem, keys);
      });
    }
  }

  TEST_CASE("keys of NaN: masked they change nothing, attended they arrive") {
    for (int32_t kind : kPreparable) {
      for (int64_t query_len : {1, 20}) {
        AttentionProblem problem = make_prepared_problem(kind, query_len, 60);
        for (int64_t b : {0, 1}) problem.key(b, 1, 31, 2) = kNan;
        problem.set_mask([](int64_t b, int64_t, int64_t, int64_t j) { return b == 1 || j != 31; });
        for_each_isa([&](const fovea_context *context) {
          const Keys keys = make_full(context, problem);
          check_same(context, problem, keys);
          const AttentionResult result = problem.make_result();
          REQUIRE_OK(attend(context, problem, keys, result));
          check_result(problem, result);
        });
      }
    }
  }

  TEST_CASE("any number of threads, in appending and in attending; several callers at once") {
    for (int32_t kind : kPreparable) {
      const AttentionProblem problem = make_prepared_problem(kind, 30, 400);
      for (const std::string &isa : instruction_sets()) {
        const AttentionResult expected = problem.make_result();
        REQUIRE_OK(attend(shared_context(isa, 1), problem, make_full(shared_context(isa, 1), problem), expected));
        for (int threads = 1; threads <= 8; ++threads) {
          const Keys keys = make_full(shared_context(isa, threads), problem);
          const AttentionResult result = problem.make_result();
          REQUIRE_OK(attend(shared_context(isa, 9 - threads), problem, keys, result));
          CHECK(same_bits(result, expected));
        }
        const Keys keys = make_full(shared_context(isa), problem);
        std::vector<AttentionResult> results;
        for (int n = 0; n < 4; ++n) results.push_back(problem.make_result());
        std::vector<fovea_status> statuses(4, FOVEA_INTERNAL_ERROR);
        std::vector<std::thread> callers;
        for (size_t n = 0; n < 4; ++n) {
          callers.emplace_back([&, n] {
            for (int repeat = 0; repeat < 5; ++repeat) {
              statuses[n] = attend(shared_context(isa), problem, keys, results[n]);
            }
          });
        }
        for (std::thread &caller : callers) caller.join();
        for (size_t n = 0; n < 4; ++n) {
          CHECK(statuses[n] == FOVEA_OK);
          CHECK(same_bits(results[n], expected));
        }
      }
    }
  }

  TEST_CASE("size and length") {
    const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_ADDITIVE, 1, 10, 64);
    const Keys small = make_keys(nullptr, problem, 100), large = make_keys(nullptr, problem, 1100);
    const size_t keys = 2 * 2 * 1000,
                 grown = fovea_prepared_keys_size(large.get()) - fovea_prepared_keys_size(small.get());
    CHECK(grown >= keys * 64 * 4);
    CHECK(grown <= keys * 66 * 4 + 4096);
    CHECK(fovea_prepared_keys_length(small.get()) == 0);
    CHECK(fovea_prepared_keys_length(nullptr) == 0);
    CHECK(fovea_prepared_keys_size(nullptr) == 0);
    fovea_prepared_keys_destroy(nullptr);
  }

  TEST_CASE("another instruction set than the one they were made for") {
    if (instruction_sets().size() < 2) {
      MESSAGE("skipped: needs two instruction sets");
      return;
    }
    const std::string first = instruction_sets().front(), last = instruction_sets().back();
    const AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_ADDITIVE, 3, 20);
    const Keys keys = make_full(shared_context(first), problem);
    const AttentionResult result = problem.make_result();
    check_refusal(attend(shared_context(last), problem, keys, result), FOVEA_BAD_VALUE, {"keys", first, last});
    CHECK(result.out.untouched());
    REQUIRE_OK(fovea_prepared_keys_truncate(keys.get(), 10));
    const fovea_tensor part = slice_positions(problem.key, 10, 20);
    check_refusal(fovea_prepared_keys_append(shared_context(last), keys.get(), &part), FOVEA_BAD_VALUE,
                  {"keys", first, last});
    CHECK(fovea_prepared_keys_length(keys.get()) == 10);
  }
}
