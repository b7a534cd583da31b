// Scores themselves, seen as the log-sum-exp of a single key, beside a plain float32 evaluation of the definition: far
// and near points, small and large arguments, few and many features and units, all of one sign and of both.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "support/accuracy.hpp"
#include "support/attention_problem.hpp"

using namespace testing;

namespace {

// How the elements of a tensor are drawn.
using Draw = std::function<float(Random &)>;

Draw normal(float scale, float centre = 0) {
  return [=](Random &random) { return centre + scale * random.normal(); };
}
Draw uniform(float least, float most) {
  return [=](Random &random) { return random.uniform(least, most); };
}

struct Case {
  int32_t kind;
  int64_t dim, query_len;
  int64_t units = 1;
  float sigma = 1;
  Draw query, key;
  Draw weight = normal(1);
};

AttentionProblem make(const Case &c, uint64_t seed) {
  Random random(base_seed() + seed);
  AttentionProblem problem =
      make_scored(c.kind, {.query_len = c.query_len, .key_len = 1, .head_dim = c.dim, .value_dim = 1}, c.units, random);
  problem.want_log_sum_exp = true;
  problem.scale = 1;
  problem.query.fill([&] { return c.query(random); });
  problem.key.fill([&] { return c.key(random); });
  if (c.kind == FOVEA_SCORE_GAUSSIAN) problem.score->sigma = c.sigma;
  for (auto *tensor : {&problem.score->query_weight, &problem.score->key_weight}) {
    if (*tensor) (*tensor)->fill([&] { return c.weight(random); });
  }
  return problem;
}

struct Errors {
  double most = 0;

  void take(float value, double truth) { most = std::fmax(most, std::abs(value - truth)); }
};

struct Expected {
  AttentionProblem problem;
  std::vector<double> truth;
  std::vector<float> plain;
};

Expected expect(AttentionProblem problem) {
  const reference::AttentionInputs inputs = problem.reference_inputs();
  return {std::move(problem), reference::attention<double>(inputs).log_sum_exp,
          reference::attention<float>(inputs).log_sum_exp};
}

// Over all queries of so many problems. That a score is seen as a log-sum-exp costs it two roundings more: it is kept
// in units of its own and taken back from them.
void check_scores(const Case &c) {
  CAPTURE(c.kind);
  CAPTURE(c.dim);
  CAPTURE(c.units);
  CAPTURE(c.sigma);
  CAPTURE(c.query_len);
  std::vector<Expected> expected;
  Errors plain;
  double rounding = 0;
  for (int n = 0; n < (c.query_len == 1 ? 150 : 16); ++n) {
    expected.push_back(expect(make(c, static_cast<uint64_t>(n))));
    for (size_t i = 0; i < expected.back().truth.size(); ++i) {
      plain.take(expected.back().plain[i], expected.back().truth[i]);
      rounding = std::fmax(rounding, kEpsilon * std::abs(expected.back().truth[i]));
    }
  }
  CAPTURE(plain.most);
  CAPTURE(rounding);
  for_each_isa([&](const fovea_context *context) {
    Errors actual;
    for (const Expected &e : expected) {
      const AttentionResult result = e.problem.make_result(false);
      REQUIRE_OK(e.problem.run(context, result));
      const std::vector<float> scores = result.log_sum_exp->dense();
      for (size_t i = 0; i < scores.size(); ++i) actual.take(scores[i], e.truth[i]);
      if (c.kind == FOVEA_SCORE_GAUSSIAN) CHECK(*std::max_element(scores.begin(), scores.end()) <= 0);
    }
    CHECK(actual.most <= 2 * plain.most + 2 * rounding);
  });
}

}  // namespace

TEST_SUITE("scores exact") {
  TEST_CASE("dot products of one sign and of both") {
    for (int64_t dim : {32, 64, 65, 128, 512, 1024}) {
      for (int64_t query_len : {1, 70}) {
        check_scores(
            {.kind = FOVEA_SCORE_DOT, .dim = dim, .query_len = query_len, .query = normal(1), .key = normal(1)});
        check_scores({.kind = FOVEA_SCORE_DOT,
                      .dim = dim,
                      .query_len = query_len,
                      .query = uniform(0, 1),
                      .key = uniform(0, 1)});
      }
    }
  }

  TEST_CASE("bilinear: its projection too") {
    for (int64_t dim : {64, 300, 1024}) {
      for (int64_t query_len : {1, 70}) {
        check_scores(
            {.kind = FOVEA_SCORE_BILINEAR, .dim = dim, .query_len = query_len, .query = normal(1), .key = normal(1)});
      }
    }
  }

  TEST_CASE("Gaussian: points far apart, near, and the same, around the origin and away from it") {
    for (int64_t dim : {1, 16, 17, 64, 1024}) {
      for (int64_t query_len : {1, 70}) {
        const auto check = [&](float sigma, const Draw &query, const Draw &key) {
          check_scores({.kind = FOVEA_SCORE_GAUSSIAN,
                        .dim = dim,
                        .query_len = query_len,
                        .sigma = sigma,
                        .query = query,
                        .key = key});
        };
        for (float sigma : {0.1f, 2.53f}) {
          check(sigma, normal(1), normal(1));
          check(sigma, uniform(0, 1), uniform(0, 1));
          check(sigma, normal(0.01f, 1.1f), normal(0.01f, 1.1f));
          check(sigma, normal(1), normal(1e-3f));
          check(sigma, normal(1, 300), normal(1, -100));
        }
        check(0.5f, uniform(1.1f, 1.1f), uniform(1.11f, 1.11f));
        check(0.5f, uniform(1.1f, 1.1f), uniform(1.1f, 1.1f));
        check(1e-3f, normal(1e-15f), normal(1e-15f));
      }
    }
  }

  TEST_CASE("additive: few units and many, arguments of every size") {
    for (int64_t units : {1, 5, 31, 32, 64, 300, 1100}) {
      for (int64_t query_len : {1, 70}) {
        for (float size : {1e-30f, 1e-4f, 0.01f, 0.1f, 0.5f, 1.0f, 3.0f, 30.0f}) {
          if (units > 64 && (size == 1e-30f || size == 0.01f || size == 1 || size == 30)) continue;  // these take long
          check_scores({.kind = FOVEA_SCORE_ADDITIVE,
                        .dim = 8,
                        .query_len = query_len,
                        .units = units,
                        .query = normal(1),
                        .key = normal(1),
                        .weight = normal(size / std::sqrt(8.0f))});
        }
      }
    }
  }

  TEST_CASE("additive: arguments whose projections are exact") {
    for (int64_t units : {1, 16, 40, 300}) {
      for (int64_t query_len : {1, 70}) {
        for (float size : {1e-4f, 0.01f, 0.1f, 0.3f, 0.5f, 1.0f, 2.0f}) {
          check_scores({.kind = FOVEA_SCORE_ADDITIVE,
                        .dim = 1,
                        .query_len = query_len,
                        .units = units,
                        .query = uniform(0.5f, 1),
                        .key = uniform(1, 1),
                        .weight = normal(size)});
        }
      }
    }
  }
}
