// The error of additive and concat scores that fovea.h promises, score by score: one key, so that log-sum-exp is the
// score, and one feature, so that projections are single products, which the test makes too.
#include <doctest/doctest.h>

#include <cmath>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

// The largest argument of either side; `negative`: all arguments are, and all of v is 1, so that every error counts as
// much as it can (1 - tanh is near 2) and none is cancelled.
struct Arguments {
  const char *name;
  float query, key;
  bool negative = false;
};

constexpr Arguments kArguments[] = {{"small", 0.5f, 0.5f},
                                    {"usual", 4, 4},
                                    {"usual, negative", 4, 4, true},
                                    {"up to where four share a reciprocal", 9, 9},
                                    {"beyond on either side", 12, 12},
                                    {"beyond, negative", 12, 12, true},
                                    {"beyond on one side", 30, 2},
                                    {"up to where exponentials are kept", 40, 40},
                                    {"beyond on either side", 60, 60},
                                    {"beyond on one side", 100, 1},
                                    {"far beyond", 100, 100}};

AttentionProblem make_single(int32_t kind, const Arguments &arguments, int64_t units, int64_t query_len) {
  Random random(base_seed() + static_cast<uint64_t>(units * query_len));
  AttentionProblem problem = make_scored(kind, {.query_len = query_len}, units, random);
  const auto between = [&](float most) { return random.uniform(-most, arguments.negative ? 0 : most); };
  if (kind == FOVEA_SCORE_ADDITIVE) {
    problem.score->query_weight->fill([&] { return between(arguments.query); });
    problem.score->key_weight->fill([&] { return between(arguments.key); });
  } else {  // [h,2], and a bias that no projection is rounded with
    problem.score->weight->fill(
        [&, n = 0]() mutable { return between(n++ % 2 == 0 ? arguments.query : arguments.key); });
    problem.score->bias->fill([] { return 0.0f; });
  }
  problem.score->score_vector->fill([&] { return arguments.negative ? 1.0f : random.normal(); });
  problem.query.fill([&] { return random.uniform(0.5f, 1.0f); });
  problem.key.fill([] { return 1.0f; });
  return problem;
}

std::vector<double> exact_scores(const AttentionProblem &problem) {
  const std::vector<float> score_vector = problem.score->score_vector->dense();
  std::vector<float> query_weight, key_weight;
  for (size_t u = 0; u < score_vector.size(); ++u) {
    const auto unit = static_cast<int64_t>(u);
    const bool additive = problem.score->kind == FOVEA_SCORE_ADDITIVE;
    query_weight.push_back(additive ? (*problem.score->query_weight)(unit, 0) : (*problem.score->weight)(unit, 0));
    key_weight.push_back(additive ? (*problem.score->key_weight)(unit, 0) : (*problem.score->weight)(unit, 1));
  }
  std::vector<double> scores;
  for (float query : problem.query.dense()) {
    double sum = 0;
    for (size_t u = 0; u < score_vector.size(); ++u) {
      const float projected = query * query_weight[u];
      sum += double(score_vector[u]) * std::tanh(double(projected) + double(key_weight[u]));
    }
    scores.push_back(sum);
  }
  return scores;
}

// Half of what is promised for units, and what sums in float32 lose: less than a 256th of h roundings.
void check_bound(int32_t kind, const Arguments &arguments, int64_t units, int64_t query_len) {
  CAPTURE(kind);
  CAPTURE(arguments.name);
  CAPTURE(units);
  CAPTURE(query_len);
  const AttentionProblem problem = make_single(kind, arguments, units, query_len);
  const std::vector<double> exact = exact_scores(problem);
  double magnitude = 0;
  for (float v : problem.score->score_vector->dense()) magnitude += std::abs(double(v));
  const double bound = (0x1p-20 + 0x1p-24 * static_cast<double>(units) / 256) * magnitude;
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult result = problem.make_result(false);
    REQUIRE_OK(problem.run(context, result));
    const std::vector<float> scores = result.log_sum_exp->dense();
    double worst = 0;
    for (size_t i = 0; i < scores.size(); ++i) worst = std::fmax(worst, std::abs(scores[i] - exact[i]));
    CHECK(worst <= bound);
  });
}

}  // namespace

TEST_SUITE("scores bounds") {
  TEST_CASE("each form of the units, alone and beside others") {
    for (const Arguments &arguments : kArguments) {
      for (int64_t units : {1, 2, 4, 5, 16, 63, 64, 1000}) {
        for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
          for (int64_t query_len : {1, 19, 500}) check_bound(kind, arguments, units, query_len);
        }
      }
    }
  }

  TEST_CASE("as many units as there may be") {
    for (const Arguments &arguments : kArguments) {
      for (int64_t query_len : {1, 19}) check_bound(FOVEA_SCORE_ADDITIVE, arguments, 65536, query_len);
    }
  }
}
