// The outputs beside out: log-sum-exp, weights and averaged weights.
#include <doctest/doctest.h>

#include <cmath>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {
    .batch = 2, .heads = 6, .kv_heads = 3, .query_len = 23, .key_len = 150, .head_dim = 16, .value_dim = 8};

AttentionProblem make_problem(int64_t query_len = kSizes.query_len) {
  Random random(base_seed());
  AttentionSizes sizes = kSizes;
  sizes.query_len = query_len;
  return make_attention(sizes, random);
}

}  // namespace

TEST_SUITE("sdpa outputs") {
  TEST_CASE("each row of the weights sums to 1") {
    for (int64_t query_len : {1, 23}) {
      AttentionProblem problem = make_problem(query_len);
      problem.flags = FOVEA_CAUSAL;
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result();
        REQUIRE_OK(problem.run(context, result));
        for_each_index({2, 6, query_len}, [&](const Shape &at) {
          double sum = 0;
          for (int64_t j = 0; j < kSizes.key_len; ++j) sum += (*result.weights)(at[0], at[1], at[2], j);
          CHECK(std::abs(sum - 1) <= 2e-6);
        });
      });
    }
  }

  TEST_CASE("weights times values give out") {
    const AttentionProblem problem = make_problem();
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      for_each_index(result.out.shape(), [&](const Shape &at) {
        double sum = 0;
        for (int64_t j = 0; j < kSizes.key_len; ++j) {
          sum += static_cast<double>((*result.weights)(at[0], at[1], at[2], j)) *
                 problem.value(at[0], at[1] / 2, j, at[3]);
        }
        CHECK(std::abs(sum - result.out.at(at)) <= 4e-6);
      });
    });
  }

  TEST_CASE("averaged weights are the mean over the heads") {
    for (int64_t query_len : {1, 2, 23}) {
      AttentionProblem problem = make_problem(query_len);
      problem.flags = FOVEA_AVERAGE_WEIGHTS;
      check_attention(problem);
      problem.flags |= FOVEA_CAUSAL;
      check_attention(problem);
      problem.set_valid_lens({17, 0});
      check_attention(problem);
    }
  }

  TEST_CASE("asking for log-sum-exp leaves the other bits as they are") {
    for (int64_t query_len : {1, 2, 23, 70}) {
      for (bool want_weights : {false, true}) {
        AttentionProblem problem = make_problem(query_len);
        for_each_isa([&](const fovea_context *context) {
          problem.want_log_sum_exp = true;
          const AttentionResult with = problem.make_result(want_weights);
          REQUIRE_OK(problem.run(context, with));
          problem.want_log_sum_exp = false;
          const AttentionResult without = problem.make_result(want_weights);
          REQUIRE_OK(problem.run(context, without));
          CHECK(same_bits(without, with));
        });
      }
    }
  }

  TEST_CASE("weights of a decode that splits its keys") {
    for (uint32_t flags : {0u, uint32_t{FOVEA_AVERAGE_WEIGHTS}}) {
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.heads = 4, .kv_heads = 2, .query_len = 1, .key_len = 4100, .head_dim = 16, .value_dim = 8}, random);
      problem.flags = flags;
      check_attention(problem);
      problem.sinks.emplace(Shape{4}).fill_normal(random);
      check_attention(problem);
    }
  }

  TEST_CASE("log-sum-exp of known scores, the sink included") {
    AttentionProblem problem = make_problem();
    problem.query.fill([] { return 0.0f; });
    for_each_isa([&](const fovea_context *context) {
      AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      for (float lse : result.log_sum_exp->dense()) CHECK(lse == doctest::Approx(std::log(150.0)).epsilon(1e-6));
    });
    problem.sinks.emplace(Shape{6}).fill([] { return std::log(50.0f); });
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      for (float lse : result.log_sum_exp->dense()) CHECK(lse == doctest::Approx(std::log(200.0)).epsilon(1e-6));
      CHECK((*result.weights)(0, 0, 0, 0) == doctest::Approx(1.0 / 200).epsilon(1e-6));
    });
  }
}
