// Score functions with numbers that can be checked by hand, and the ways in which one is a case of another.
#include <doctest/doctest.h>

#include <cmath>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

AttentionResult run(const AttentionProblem &problem, const fovea_context *context) {
  AttentionResult result = problem.make_result();
  REQUIRE_OK(problem.run(context, result));
  return result;
}

// One query, two keys of one feature, values 8 and 4.
AttentionProblem two_keys(int32_t kind, float query, float first_key, float second_key) {
  Random random(base_seed());
  AttentionProblem problem = make_scored(kind, {.query_len = 1, .key_len = 2, .head_dim = 1, .value_dim = 1}, 1, random,
                                         Layout::kHeadsFirst, 2);
  problem.query.assign({query});
  problem.key.assign({first_key, second_key});
  problem.value.assign({8, 4});
  return problem;
}

// Scores log 3 and 0: weights 3/4 and 1/4.
void check_log_3(const AttentionProblem &problem) {
  const std::string what = problem.describe();
  CAPTURE(what);
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult result = run(problem, context);
    CHECK(result.out(0, 0) == doctest::Approx(7).epsilon(1e-6));
    CHECK((*result.weights)(0, 0) == doctest::Approx(0.75).epsilon(1e-6));
    CHECK((*result.weights)(0, 1) == doctest::Approx(0.25).epsilon(1e-6));
    CHECK((*result.log_sum_exp)(0) == doctest::Approx(std::log(4.0)).epsilon(1e-6));
  });
  check_attention(problem);
}

// Two problems with the same truth.
void check_equal(const AttentionProblem &left, const AttentionProblem &right, double tolerance) {
  const std::string left_what = left.describe(), right_what = right.describe();
  CAPTURE(left_what);
  CAPTURE(right_what);
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult a = run(left, context), b = run(right, context);
    double worst = 0;
    for_each_index(a.out.shape(), [&](const Shape &at) {
      worst = std::max(worst, std::abs(double{a.out.at(at)} - double{b.out.at(at)}));
    });
    for_each_index(a.log_sum_exp->shape(), [&](const Shape &at) {
      worst = std::max(worst, std::abs(double{a.log_sum_exp->at(at)} - double{b.log_sum_exp->at(at)}));
    });
    CHECK(worst <= tolerance);
  });
  check_attention(left);
  check_attention(right);
}

constexpr AttentionSizes kSizes = {
    .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 9, .key_len = 37, .head_dim = 12, .value_dim = 10};

}  // namespace

TEST_SUITE("scores examples") {
  TEST_CASE("equal keys give the mean of the valid values, whatever the parameters") {
    for (int32_t kind : kScoreKinds) {
      for (uint64_t seed = base_seed(); seed < base_seed() + 5; ++seed) {
        CAPTURE(seed);
        Random random(seed);
        AttentionSizes sizes = {.batch = 2, .query_len = 1, .key_len = 10, .head_dim = 2, .value_dim = 4};
        if (has_hidden(kind)) {
          sizes.head_dim = 20;
          sizes.key_dim = 2;
        }
        AttentionProblem problem = make_scored(kind, sizes, 8, random, Layout::kHeadsFirst, 3);
        problem.key.fill([] { return 1.0f; });
        problem.value.fill([n = 0]() mutable { return static_cast<float>(n++ % 40); });
        problem.set_valid_lens({2, 6});
        const float expected[2][4] = {{2, 3, 4, 5}, {10, 11, 12, 13}};
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = run(problem, context);
          for (int64_t b = 0; b < 2; ++b) {
            for (int64_t d = 0; d < 4; ++d) CHECK(std::abs(result.out(b, 0, d) - expected[b][d]) <= 1e-5f);
            for (int64_t j = 0; j < 10; ++j) {
              const int64_t len = b == 0 ? 2 : 6;
              const float weight = j < len ? 1.0f / static_cast<float>(len) : 0.0f;
              CHECK(std::abs((*result.weights)(b, 0, j) - weight) <= 1e-6f);
            }
          }
        });
        check_attention(problem);
      }
    }
  }

  TEST_CASE("two keys, scores log 3 and 0: weights 3/4 and 1/4") {
    const float log_3 = std::log(3.0f);
    check_log_3(two_keys(FOVEA_SCORE_DOT, 1, log_3, 0));

    AttentionProblem bilinear = two_keys(FOVEA_SCORE_BILINEAR, 2, 0.5f, 0);
    bilinear.score->weight->assign({log_3});
    check_log_3(bilinear);

    AttentionProblem additive = two_keys(FOVEA_SCORE_ADDITIVE, 0.25f, 1, -0.5f);  // tanh of 1 and 0
    additive.score->query_weight->assign({2});
    additive.score->key_weight->assign({1});
    additive.query.assign({0.25f});
    additive.key.assign({0.5f, -0.5f});
    additive.score->score_vector->assign({log_3 / std::tanh(1.0f)});
    check_log_3(additive);

    AttentionProblem concat = two_keys(FOVEA_SCORE_CONCAT, 0.25f, 0.25f, -0.25f);
    concat.score->weight->assign({2, 2});
    concat.score->bias->assign({0.25f});
    concat.key.assign({0.125f, -0.375f});  // tanh of 1 and 0
    concat.score->score_vector->assign({log_3 / std::tanh(1.0f)});
    check_log_3(concat);

    AttentionProblem gaussian = two_keys(FOVEA_SCORE_GAUSSIAN, 1, 1, 1 + std::sqrt(2 * log_3));
    gaussian.score->sigma = 1;
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = run(gaussian, context);  // scores 0 and -log 3
      CHECK(result.out(0, 0) == doctest::Approx(7).epsilon(1e-6));
      CHECK((*result.log_sum_exp)(0) == doctest::Approx(std::log(4.0 / 3)).epsilon(1e-6));
    });
    gaussian.score->sigma = 2;  // a quarter of the scores
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = run(gaussian, context);
      CHECK((*result.log_sum_exp)(0) == doctest::Approx(std::log(1 + std::pow(3.0, -0.25))).epsilon(1e-6));
    });
  }

  TEST_CASE("the scale multiplies the score, and is 1 if it is 0") {
    const float log_3 = std::log(3.0f);
    AttentionProblem bilinear = two_keys(FOVEA_SCORE_BILINEAR, 2, 0.5f, 0);
    bilinear.score->weight->assign({2 * log_3});
    bilinear.scale = 0.5f;
    check_log_3(bilinear);
    AttentionProblem additive = two_keys(FOVEA_SCORE_ADDITIVE, 0, 1, 0);
    additive.score->key_weight->assign({1});
    additive.score->score_vector->assign({-log_3 / std::tanh(1.0f) / 4});
    additive.scale = -4;
    check_log_3(additive);
    AttentionProblem gaussian = two_keys(FOVEA_SCORE_GAUSSIAN, 0, 1, 0);
    gaussian.score->sigma = 0.5f;  // scores -2 and 0
    gaussian.scale = -log_3 / 2;
    check_log_3(gaussian);
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      Random random(base_seed());
      AttentionProblem problem = make_scored(kind, {.query_len = 3, .key_len = 20, .head_dim = 9}, 5, random);
      for_each_isa([&](const fovea_context *context) {
        problem.scale = 0;
        const AttentionResult usual = run(problem, context);
        problem.scale = kind == FOVEA_SCORE_DOT ? 1.0f / 3 : 1.0f;
        CHECK(same_bits(run(problem, context), usual));
      });
    }
  }

  TEST_CASE("a scale of 0 that is given: equal weights, the mean of the values, scores of 0") {
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      Random random(base_seed());
      for (int64_t query_len : {1, 3, 40}) {
        AttentionProblem problem =
            make_scored(kind, {.query_len = query_len, .key_len = 20, .head_dim = 9, .value_dim = 2}, 5, random);
        problem.value.fill([n = 0]() mutable { return static_cast<float>(n++ % 40); });  // the means are 19 and 20
        problem.flags = FOVEA_SCALE_GIVEN;
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = run(problem, context);
          for (float weight : result.weights->dense()) CHECK(weight == doctest::Approx(0.05).epsilon(1e-6));
          for (float lse : result.log_sum_exp->dense()) CHECK(lse == doctest::Approx(std::log(20.0)).epsilon(1e-6));
          for_each_index(result.out.shape(), [&](const Shape &at) {
            CHECK(result.out.at(at) == doctest::Approx(19.0 + static_cast<double>(at[3])).epsilon(1e-6));
          });
        });
      }
    }
  }

  TEST_CASE("weights of zero: the bias alone is the score") {
    Random random(base_seed());
    AttentionProblem problem = make_scored(FOVEA_SCORE_CONCAT, kSizes, 3, random);
    problem.score->weight->fill([] { return 0.0f; });
    problem.score->bias->assign({0.5f, -1, 20});
    problem.score->score_vector->assign({1, 2, 3});
    const double score = std::tanh(0.5) - 2 * std::tanh(1.0) + 3;
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = run(problem, context);
      for (float lse : result.log_sum_exp->dense()) CHECK(lse == doctest::Approx(score + std::log(37.0)).epsilon(1e-6));
    });
    check_attention(problem);
  }

  TEST_CASE("no score, and the dot product, are fovea_sdpa: the same bits") {
    for (int64_t query_len : {1, 9, 80}) {
      for (bool weights : {false, true}) {
        Random random(base_seed());
        AttentionSizes sizes = kSizes;
        sizes.query_len = query_len;
        AttentionProblem problem = make_attention(sizes, random);
        problem.flags = FOVEA_CAUSAL;
        problem.set_valid_lens({30, 2});
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult sdpa = problem.make_result(weights), dot = problem.make_result(weights),
                                none = problem.make_result(weights);
          problem.score.reset();
          REQUIRE_OK(problem.run(context, sdpa));
          const AttentionArguments call(problem, none);
          REQUIRE_OK(fovea_attention(context, nullptr, &call.query, &call.key, &call.value, &call.out, &call.options));
          CHECK(same_bits(sdpa, none));
          problem.score.emplace();
          REQUIRE_OK(problem.run(context, dot));
          CHECK(same_bits(sdpa, dot));
        });
      }
    }
  }

  TEST_CASE("concat is additive with W = [Wq Wk] and no bias, or a bias of zero") {
    for (int64_t hidden : {1, 8, 37, 128}) {
      for (int64_t query_len : {1, 9}) {
        Random random(base_seed());
        AttentionSizes sizes = kSizes;
        sizes.query_len = query_len;
        sizes.key_dim = 7;
        const AttentionProblem additive = make_scored(FOVEA_SCORE_ADDITIVE, sizes, hidden, random);
        Random again(base_seed());
        AttentionProblem concat = make_scored(FOVEA_SCORE_CONCAT, sizes, hidden, again);
        for (int64_t u = 0; u < hidden; ++u) {
          for (int64_t d = 0; d < 12; ++d) (*concat.score->weight)(u, d) = (*additive.score->query_weight)(u, d);
          for (int64_t d = 0; d < 7; ++d) (*concat.score->weight)(u, 12 + d) = (*additive.score->key_weight)(u, d);
        }
        concat.score->score_vector->assign(additive.score->score_vector->dense());
        concat.score->bias->fill([] { return 0.0f; });
        const double tolerance = 1e-5;  // scores of size 1 to 4
        check_equal(additive, concat, tolerance);
        concat.score->bias.reset();
        check_equal(additive, concat, tolerance);
      }
    }
  }

  TEST_CASE("a bias is a feature of the key that is 1") {
    Random random(base_seed());
    AttentionProblem concat = make_scored(FOVEA_SCORE_CONCAT, kSizes, 24, random);
    Random again(base_seed());
    AttentionSizes longer = kSizes;
    longer.key_dim = kSizes.head_dim + 1;
    AttentionProblem additive = make_scored(FOVEA_SCORE_ADDITIVE, longer, 24, again);
    additive.query.assign(concat.query.dense());
    additive.value.assign(concat.value.dense());
    for_each_index(additive.key.shape(),
                   [&](const Shape &at) { additive.key.at(at) = at[3] == kSizes.head_dim ? 1.0f : concat.key.at(at); });
    for (int64_t u = 0; u < 24; ++u) {
      for (int64_t d = 0; d < 12; ++d) {
        (*additive.score->query_weight)(u, d) = (*concat.score->weight)(u, d);
        (*additive.score->key_weight)(u, d) = (*concat.score->weight)(u, 12 + d);
      }
      (*additive.score->key_weight)(u, 12) = (*concat.score->bias)(u);
    }
    additive.score->score_vector->assign(concat.score->score_vector->dense());
    check_equal(concat, additive, 1e-5);
  }

  TEST_CASE("bilinear with W = I is the dot product with scale 1") {
    for (int64_t query_len : {1, 9, 60}) {
      Random random(base_seed());
      AttentionSizes sizes = kSizes;
      sizes.query_len = query_len;
      AttentionProblem bilinear = make_scored(FOVEA_SCORE_BILINEAR, sizes, 0, random);
      bilinear.query.memory().thaw();
      for_each_index(bilinear.query.shape(), [&](const Shape &at) { bilinear.query.at(at) *= 0.25f; });
      for_each_index({12, 12}, [&](const Shape &at) { bilinear.score->weight->at(at) = at[0] == at[1] ? 1.0f : 0.0f; });
      AttentionProblem dot = make_attention(sizes, random);
      dot.query.assign(bilinear.query.dense());
      dot.key.assign(bilinear.key.dense());
      dot.value.assign(bilinear.value.dense());
      dot.scale = 1;
      check_equal(bilinear, dot, 1e-5);
    }
  }

  TEST_CASE("Gaussian: the weights of the dot product with scale 1/sigma^2 if all keys have one length, the true sum") {
    Random random(base_seed());
    AttentionProblem gaussian = make_scored(FOVEA_SCORE_GAUSSIAN, kSizes, 0, random);
    gaussian.score->sigma = 1.5f;
    gaussian.key.fill([&] { return random.chance(0.5) ? 0.5f : -0.5f; });  // |k|^2 = 3
    AttentionProblem dot = make_attention(kSizes, random);
    dot.query.assign(gaussian.query.dense());
    dot.key.assign(gaussian.key.dense());
    dot.value.assign(gaussian.value.dense());
    dot.scale = 1 / 2.25f;
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult a = run(gaussian, context), b = run(dot, context);
      for_each_index(a.out.shape(), [&](const Shape &at) { CHECK(std::abs(a.out.at(at) - b.out.at(at)) <= 1e-5f); });
      for_each_index(a.log_sum_exp->shape(), [&](const Shape &at) {
        double norm = 3;
        for (int64_t d = 0; d < 12; ++d) norm += std::pow(double{gaussian.query(at[0], at[1], at[2], d)}, 2);
        CHECK(a.log_sum_exp->at(at) == doctest::Approx(b.log_sum_exp->at(at) - norm / 4.5).epsilon(1e-5));
      });
    });
    check_attention(gaussian);
  }
}
