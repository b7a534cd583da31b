// Masks and biases that end before the keys do: the keys behind them are not attended, and nothing behind them is read.
#include <doctest/doctest.h>

#include "errors.hpp"
#include "support/attention_plan.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

namespace {

AttentionProblem make_problem(int64_t query_len, int64_t key_len, int32_t kind = FOVEA_SCORE_DOT) {
  Random random(base_seed());
  AttentionSizes sizes = {.batch = 2,
                          .heads = 4,
                          .kv_heads = 2,
                          .query_len = query_len,
                          .key_len = key_len,
                          .head_dim = 12,
                          .value_dim = 10};
  return kind == FOVEA_SCORE_DOT ? make_attention(sizes, random) : make_scored(kind, sizes, 17, random);
}

// Neither has a byte too many: reading past one ends the program.
void set_short_mask(AttentionProblem &problem, int64_t keys) {
  Random random(base_seed() + 1);
  problem.mask.emplace(Shape{2, 1, problem.sizes.query_len, keys}).fill([&] {
    return static_cast<uint8_t>(random.chance(0.8));
  });
}

void set_short_bias(AttentionProblem &problem, int64_t keys) {
  Random random(base_seed() + 2);
  problem.bias.emplace(Shape{1, 4, 1, keys}).fill([&] { return random.chance(0.1) ? -kInfinity : random.normal(); });
}

}  // namespace

TEST_SUITE("short masks") {
  TEST_CASE("every length, for few queries and many, few keys and split ones") {
    for (int64_t query_len : {1, 3, 40}) {
      for (int64_t key_len : {9, 97, 700}) {
        if (query_len > 3 && key_len > 97) continue;
        for (int64_t keys : {int64_t{0}, int64_t{1}, key_len / 3, key_len - 1, key_len}) {
          CAPTURE(keys);
          AttentionProblem problem = make_problem(query_len, key_len);
          set_short_mask(problem, keys);
          check_attention(problem);
          problem.mask.reset();
          set_short_bias(problem, keys);
          check_attention(problem);
        }
      }
    }
  }

  TEST_CASE("the shorter one counts, with lengths, causal and windows too") {
    for (int64_t query_len : {1, 30}) {
      AttentionProblem problem = make_problem(query_len, 97);
      for (int64_t keys : {13, 64, 90}) {
        set_short_mask(problem, keys);
        set_short_bias(problem, 103 - keys);
        check_attention(problem);
        problem.set_valid_lens({50, 97});
        check_attention(problem);
        problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
        problem.window_left = 60;
        check_attention(problem);
        problem.flags = FOVEA_LEAVE_ONE_OUT;
        problem.valid_lens32.reset();
        check_attention(problem);
        problem.flags = 0;
      }
    }
  }

  TEST_CASE("every score function; NaN behind the mask changes nothing") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 40}) {
        AttentionProblem problem = make_problem(query_len, 130, kind);
        set_short_mask(problem, 70);
        check_attention(problem);
        AttentionProblem poisoned = make_problem(query_len, 130, kind);
        set_short_mask(poisoned, 70);
        for (int64_t j = 70; j < 130; ++j) {
          for (int64_t g = 0; g < 2; ++g) {
            for (int64_t b = 0; b < 2; ++b) poisoned.key(b, g, j, 3) = poisoned.value(b, g, j, 5) = kNan;
          }
        }
        for_each_isa([&](const fovea_context *context) {
          for (bool weights : {false, true}) {
            const AttentionResult clean = problem.make_result(weights), result = problem.make_result(weights);
            REQUIRE_OK(problem.run(context, clean));
            REQUIRE_OK(poisoned.run(context, result));
            CHECK(same_bits(clean, result));
          }
        });
      }
    }
  }

  TEST_CASE("empty rows are over all keys by UNIFORM; ranks 3 and 2; prepared keys; plans") {
    for (int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
      for (int64_t query_len : {1, 40}) {
        AttentionProblem problem = make_problem(query_len, 50);
        problem.empty_rows = policy;
        set_short_mask(problem, 0);
        check_attention(problem);
        problem.mask.emplace(Shape{2, 1, 1, 30}).fill([] { return uint8_t{0}; });
        check_attention(problem);
      }
    }
    for (int rank : {2, 3}) {
      Random random(base_seed());
      AttentionProblem problem =
          make_attention({.batch = rank == 2 ? 1 : 3, .query_len = 5, .key_len = 70, .head_dim = 8, .value_dim = 6},
                         random, Layout::kPadded, rank);
      problem.mask.emplace(Shape{5, 41}).fill([&] { return static_cast<uint8_t>(random.chance(0.5)); });
      check_attention(problem);
    }
    AttentionProblem problem = make_prepared_problem(FOVEA_SCORE_CONCAT, 3, 130);
    problem.mask.emplace(Shape{3, 71}).fill([] { return uint8_t{1}; });
    for_each_isa([&](const fovea_context *context) {
      const Keys keys = make_full(context, problem);
      const AttentionResult prepared = problem.make_result(), once = problem.make_result();
      REQUIRE_OK(attend(context, problem, keys, prepared));
      REQUIRE_OK(problem.run(context, once));
      CHECK(same_bits(prepared, once));
      const AttentionResult planned = problem.make_result();
      const AttentionPlan plan(context, problem, planned);
      REQUIRE_OK(plan.run(problem, planned));
      CHECK(same_bits(planned, once));
    });
  }

  TEST_CASE("longer than the keys is refused") {
    AttentionProblem problem = make_problem(3, 5);
    set_short_mask(problem, 6);
    const AttentionResult result = problem.make_result();
    check_refusal(AttentionArguments(problem, result).run(nullptr), FOVEA_BAD_SHAPE,
                  {"mask has 6 keys, expected 0 to 5"});
    problem.mask.reset();
    set_short_bias(problem, 6);
    check_refusal(AttentionArguments(problem, result).run(nullptr), FOVEA_BAD_SHAPE,
                  {"bias has 6 keys, expected 0 to 5"});
    CHECK(result.out.untouched());
  }
}
