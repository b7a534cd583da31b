// The worked examples of scaled dot-product attention, with numbers that can be checked by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "support/attention_problem.hpp"

using namespace testing;

TEST_SUITE("sdpa examples") {
  TEST_CASE("equal keys give uniform weights: the mean of the valid values") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.batch = 2, .query_len = 1, .key_len = 10, .head_dim = 2, .value_dim = 4}, random, Layout::kHeadsFirst, 3);
    problem.key.fill([] { return 1.0f; });
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t j = 0; j < 10; ++j) {
        for (int64_t d = 0; d < 4; ++d) problem.value(b, j, d) = static_cast<float>(4 * j + d);
      }
    }
    problem.set_valid_lens({2, 6});
    const float expected[2][4] = {{2, 3, 4, 5}, {10, 11, 12, 13}};
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      for (int64_t b = 0; b < 2; ++b) {
        for (int64_t d = 0; d < 4; ++d) CHECK(std::abs(result.out(b, 0, d) - expected[b][d]) <= 1e-5f);
        for (int64_t j = 0; j < 10; ++j) {
          const int64_t len = b == 0 ? 2 : 6;
          CHECK(std::abs((*result.weights)(b, 0, j) - (j < len ? 1.0f / static_cast<float>(len) : 0.0f)) <= 1e-6f);
        }
      }
    });
    check_attention(problem);
  }

  TEST_CASE("one key: the output is its value, whatever the score") {
    Random random(base_seed());
    const AttentionProblem problem = make_attention(
        {.batch = 2, .heads = 3, .kv_heads = 3, .query_len = 5, .key_len = 1, .head_dim = 7, .value_dim = 9}, random);
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      for_each_index(result.out.shape(), [&](const Shape &at) {
        CHECK(result.out.at(at) == doctest::Approx(problem.value(at[0], at[1], 0, at[3])).epsilon(1e-6));
      });
    });
  }

  TEST_CASE("two keys, scores log 1 and log 3: weights 1/4 and 3/4") {
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.query_len = 1, .key_len = 2, .head_dim = 1, .value_dim = 1}, random, Layout::kHeadsFirst, 2);
    problem.query.assign({1});
    problem.key.assign({0, std::log(3.0f)});
    problem.value.assign({8, 4});
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      CHECK(result.out(0, 0) == doctest::Approx(5).epsilon(1e-6));
      CHECK((*result.weights)(0, 0) == doctest::Approx(0.25).epsilon(1e-6));
      CHECK((*result.log_sum_exp)(0) == doctest::Approx(std::log(4.0)).epsilon(1e-6));
    });
  }

  TEST_CASE("causal, bottom-right: the last query sees every key") {
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 2, .key_len = 4, .head_dim = 3, .value_dim = 2}, random);
    problem.flags = FOVEA_CAUSAL;
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      CHECK((*result.weights)(0, 0, 0, 2) > 0);
      CHECK((*result.weights)(0, 0, 0, 3) == 0);
      CHECK((*result.weights)(0, 0, 1, 3) > 0);
    });
    problem.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT;
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      CHECK((*result.weights)(0, 0, 0, 0) == doctest::Approx(1).epsilon(1e-6));
      CHECK((*result.weights)(0, 0, 0, 1) == 0);
      CHECK((*result.weights)(0, 0, 1, 2) == 0);
    });
  }
}
