// Gradients and masks: what is not attended neither gives nor gets a gradient, whatever it holds; what is attended
// does.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "support/gradient_problem.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {
    .batch = 2, .heads = 2, .kv_heads = 1, .query_len = 70, .key_len = 110, .head_dim = 9, .value_dim = 11};

AttentionProblem make(int32_t kind, Random &random, const AttentionSizes &sizes = kSizes) {
  return make_scored(kind, sizes, 12, random);
}

// The same with other numbers in some keys and their values.
template <typename Spoils>
AttentionProblem problem_with(const AttentionProblem &problem, const Spoils &spoils, float number) {
  AttentionProblem spoilt;
  spoilt.sizes = problem.sizes;
  spoilt.score.emplace();
  spoilt.score->kind = problem.score->kind;
  spoilt.score->sigma = problem.score->sigma;
  const auto copy = [](const Tensor<float> &from) {
    Tensor<float> to(from.shape(), from.strides());
    to.assign(from.dense());
    return to;
  };
  const auto copy_some = [&](const std::optional<Tensor<float>> &from, std::optional<Tensor<float>> &to) {
    if (from) to = copy(*from);
  };
  copy_some(problem.score->query_weight, spoilt.score->query_weight);
  copy_some(problem.score->key_weight, spoilt.score->key_weight);
  copy_some(problem.score->weight, spoilt.score->weight);
  copy_some(problem.score->bias, spoilt.score->bias);
  copy_some(problem.score->score_vector, spoilt.score->score_vector);
  spoilt.query = copy(problem.query);
  spoilt.key = copy(problem.key);
  spoilt.value = copy(problem.value);
  for (const Tensor<float> *tensor : {&spoilt.key, &spoilt.value}) {
    for_each_index(tensor->shape(), [&](const Shape &at) {
      if (spoils(at)) tensor->at(at) = number;
    });
  }
  if (problem.valid_lens32) {
    spoilt.valid_lens32.emplace(problem.valid_lens32->shape());
    spoilt.valid_lens32->assign(problem.valid_lens32->dense());
  }
  if (problem.mask) {
    spoilt.mask.emplace(problem.mask->shape());
    spoilt.mask->assign(problem.mask->dense());
  }
  return spoilt;
}

struct Outcome {
  AttentionResult result;
  GradientTensors gradients;
};

Outcome run(const fovea_context *context, const AttentionProblem &problem, const GradientTensors &given) {
  Outcome outcome = {problem.make_result(false), unwritten(given)};
  REQUIRE_OK(problem.run(context, outcome.result));
  REQUIRE_OK(run_backward(context, problem, outcome.result, outcome.gradients));
  return outcome;
}

bool all_finite(const Tensor<float> &tensor) {
  for (const float x : tensor.dense()) {
    if (!std::isfinite(x)) return false;
  }
  return true;
}

double distance(const Tensor<float> &a, const Tensor<float> &b) {
  const std::vector<float> x = a.dense(), y = b.dense();
  double most = 0;
  for (size_t n = 0; n < x.size(); ++n) most = std::max(most, std::abs(double(x[n]) - double(y[n])));
  return most;
}

}  // namespace

TEST_SUITE("gradients masks") {
  TEST_CASE("a row with nothing to attend has no gradient and gives none, under any policy") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (const int32_t policy : {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN}) {
        CAPTURE(kind);
        CAPTURE(policy);
        AttentionProblem problem = make(kind, random);
        problem.empty_rows = policy;
        problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return i % 3 != 0 && (i + j) % 4 != 0; });
        const GradientTensors gradients = make_gradients(problem, random);
        check_gradients(problem, gradients);
        for_each_isa([&](const fovea_context *context) {
          const Outcome outcome = run(context, problem, gradients);
          for_each_index(problem.query.shape(), [&](const Shape &at) {
            if (at[2] % 3 == 0) REQUIRE_EQ(outcome.gradients.query.at(at), 0.0f);
          });
        });
      }
    }
  }

  // With lengths what lies behind is not touched; with masks it shares tiles with what is attended.
  TEST_CASE("NaN and infinity behind a mask change nothing") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (const bool by_length : {true, false}) {
        for (const float poison : {kNan, kInfinity}) {
          CAPTURE(kind);
          CAPTURE(by_length);
          CAPTURE(poison);
          AttentionProblem problem = make(kind, random);
          if (by_length) {
            problem.set_valid_lens({80, 33});
          } else {
            problem.set_mask(
                [](int64_t, int64_t, int64_t i, int64_t j) { return j % 5 != 2 && (i % 7 != 3 || j < 4); });
          }
          const GradientTensors gradients = make_gradients(problem, random);
          for_each_isa([&](const fovea_context *context) {
            const Outcome clean = run(context, problem, gradients);
            AttentionProblem spoilt = problem_with(
                problem, [&](const Shape &at) { return by_length ? at[2] >= (at[0] == 0 ? 80 : 33) : at[2] % 5 == 2; },
                poison);
            const Outcome outcome = run(context, spoilt, gradients);
            REQUIRE(all_finite(outcome.gradients.query));
            REQUIRE(all_finite(outcome.gradients.key));
            REQUIRE(all_finite(outcome.gradients.value));
            CHECK_LE(distance(clean.gradients.query, outcome.gradients.query), 1e-5);
            CHECK_LE(distance(clean.gradients.key, outcome.gradients.key), 1e-5);
            CHECK_LE(distance(clean.gradients.value, outcome.gradients.value), 1e-5);
            if (outcome.gradients.key_weight) {
              CHECK_LE(distance(*clean.gradients.key_weight, *outcome.gradients.key_weight), 1e-4);
            }
          });
        }
      }
    }
  }

  TEST_CASE("NaN in a row's gradient reaches the keys that the row attends, and no other") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      AttentionProblem problem = make(kind, random, {.query_len = 70, .key_len = 110, .head_dim = 9, .value_dim = 11});
      problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return i != 17 || j % 2 == 0; });
      GradientTensors gradients = make_gradients(problem, random);
      for (int64_t d = 0; d < 11; ++d) gradients.out(0, 0, 17, d) = kNan;
      for_each_isa([&](const fovea_context *context) {
        const Outcome outcome = run(context, problem, gradients);
        for_each_index(problem.value.shape(), [&](const Shape &at) {
          REQUIRE_EQ(std::isnan(outcome.gradients.value.at(at)), at[2] % 2 == 0);
        });
        for_each_index(problem.key.shape(),
                       [&](const Shape &at) { REQUIRE_EQ(std::isnan(outcome.gradients.key.at(at)), at[2] % 2 == 0); });
        for_each_index(problem.query.shape(),
                       [&](const Shape &at) { REQUIRE_EQ(std::isnan(outcome.gradients.query.at(at)), at[2] == 17); });
      });
    }
  }

  TEST_CASE("NaN in a key that is attended reaches what depends on it") {
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 40, .key_len = 60, .head_dim = 8, .value_dim = 8}, random);
    problem.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT;
    for (int64_t d = 0; d < 8; ++d) problem.key(0, 0, 30, d) = kNan;
    const GradientTensors gradients = make_gradients(problem, random);
    for_each_isa([&](const fovea_context *context) {
      const Outcome outcome = run(context, problem, gradients);
      for_each_index(problem.query.shape(),
                     [&](const Shape &at) { REQUIRE_EQ(std::isnan(outcome.gradients.query.at(at)), at[2] >= 30); });
    });
  }

  TEST_CASE("keys behind a bias that is shorter than the keys have none") {
    Random random(base_seed());
    AttentionProblem problem = make_attention({.query_len = 9, .key_len = 30, .head_dim = 8, .value_dim = 8}, random);
    problem.bias.emplace(Shape{1, 1, 9, 21}).fill_normal(random);
    const GradientTensors gradients = make_gradients(problem, random);
    check_gradients(problem, gradients);
  }

  TEST_CASE("a bias of any axes of size 1") {
    Random random(base_seed());
    for (const Shape &shape : {Shape{2, 2, 70, 110}, Shape{1, 2, 70, 110}, Shape{1, 1, 70, 110}, Shape{2, 1, 1, 110},
                               Shape{1, 2, 1, 110}, Shape{1, 1, 1, 110}, Shape{2, 2, 1, 110}, Shape{70, 110}}) {
      AttentionProblem problem = make(FOVEA_SCORE_DOT, random);
      problem.bias.emplace(shape).fill_normal(random);
      const GradientTensors gradients = make_gradients(problem, random);
      check_gradients(problem, gradients);
    }
  }
}
