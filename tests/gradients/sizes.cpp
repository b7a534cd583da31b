// Gradients at the edges of tiles: one below, at and above them, with every score function, and in the forms that
// additive units take.
#include <doctest/doctest.h>

#include <initializer_list>

#include "support/gradient_problem.hpp"

using namespace testing;

namespace {

void check(AttentionProblem problem, Random &random) {
  const GradientTensors gradients = make_gradients(problem, random);
  check_gradients(problem, gradients);
}

AttentionProblem make(int32_t kind, AttentionSizes sizes, int64_t hidden, Random &random) {
  if (takes_two_dims(kind)) sizes.key_dim = sizes.head_dim + 1;
  return make_scored(kind, sizes, hidden, random);
}

void multiply(const Tensor<float> &tensor, float factor) {
  tensor.memory().thaw();
  for_each_index(tensor.shape(), [&](const Shape &at) { tensor.at(at) *= factor; });
}

}  // namespace

TEST_SUITE("gradients sizes") {
  TEST_CASE("lengths about tiles of queries and of keys, with every score function") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (const int64_t length : {1, 31, 32, 33, 63, 64, 65, 95, 96, 97, 129, 193}) {
        CAPTURE(length);
        check(make(kind, {.query_len = length, .key_len = 50, .head_dim = 5, .value_dim = 6}, 9, random), random);
        check(make(kind, {.query_len = 20, .key_len = length, .head_dim = 5, .value_dim = 6}, 9, random), random);
      }
    }
  }

  TEST_CASE("feature sizes about registers") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (const int64_t dim : {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64}) {
        CAPTURE(dim);
        check(make(kind, {.query_len = 9, .key_len = 11, .head_dim = dim, .value_dim = 3}, dim, random), random);
        check(make(kind, {.query_len = 9, .key_len = 11, .head_dim = 3, .value_dim = dim}, 35, random), random);
      }
    }
  }

  // Sums of queries and of keys that several tasks leave.
  TEST_CASE("a single head of many keys, and one of many queries") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      check(make(kind, {.query_len = 70, .key_len = 1000, .head_dim = 8, .value_dim = 12}, 6, random), random);
      check(make(kind, {.query_len = 1200, .key_len = 90, .head_dim = 8, .value_dim = 12}, 6, random), random);
      AttentionProblem both =
          make(kind,
               {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 300, .key_len = 500, .head_dim = 8, .value_dim = 8},
               6, random);
      both.flags = FOVEA_CAUSAL;
      check(std::move(both), random);
    }
  }

  TEST_CASE("gradients of many elements as close as a plain evaluation and no floor") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      AttentionProblem problem =
          make(kind, {.batch = 2, .heads = 2, .query_len = 200, .key_len = 300, .head_dim = 33, .value_dim = 40}, 37,
               random);
      const GradientTensors gradients = make_gradients(problem, random, true, true);
      check_gradients(problem, gradients, Strictness::no_floor);
    }
  }

  TEST_CASE("the most features there may be") {
    Random random(base_seed());
    check(make_attention({.query_len = 5, .key_len = 70, .head_dim = 1024, .value_dim = 1024}, random), random);
    check(make(FOVEA_SCORE_GAUSSIAN, {.query_len = 5, .key_len = 7, .head_dim = 1024, .value_dim = 1024}, 0, random),
          random);
  }

  TEST_CASE("no queries, no keys, no heads: gradients are zeros") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      check(make(kind, {.query_len = 0, .key_len = 9, .head_dim = 4, .value_dim = 5}, 6, random), random);
      check(make(kind, {.query_len = 9, .key_len = 0, .head_dim = 4, .value_dim = 5}, 6, random), random);
      check(make(kind, {.batch = 0, .query_len = 9, .key_len = 7, .head_dim = 4, .value_dim = 5}, 6, random), random);
      check(make(kind, {.heads = 0, .query_len = 9, .key_len = 7, .head_dim = 4, .value_dim = 5}, 6, random), random);
    }
  }
}

TEST_SUITE("gradients numerics") {
  // Tangents, exponentials and units themselves; rows and keys of one kind, and of several.
  TEST_CASE("additive units of every size") {
    Random random(base_seed());
    for (const int64_t hidden : {5, 40}) {
      for (const float of_queries : {1e-3f, 0.1f, 1.0f, 30.0f}) {
        for (const float of_keys : {1e-3f, 0.1f, 1.0f, 30.0f}) {
          CAPTURE(of_queries);
          CAPTURE(of_keys);
          AttentionProblem problem = make(
              FOVEA_SCORE_ADDITIVE, {.query_len = 37, .key_len = 41, .head_dim = 6, .value_dim = 4}, hidden, random);
          multiply(*problem.score->query_weight, of_queries);
          multiply(*problem.score->key_weight, of_keys);
          check(std::move(problem), random);
        }
      }
    }
  }

  TEST_CASE("additive units of rows and keys that differ in size") {
    Random random(base_seed());
    for (const float most : {3.0f, 300.0f}) {
      AttentionProblem problem =
          make(FOVEA_SCORE_CONCAT, {.query_len = 45, .key_len = 53, .head_dim = 6, .value_dim = 4}, 40, random);
      for_each_index(problem.query.shape(),
                     [&](const Shape &at) { problem.query.at(at) *= at[2] % 3 == 0 ? 1e-2f : most; });
      for_each_index(problem.key.shape(),
                     [&](const Shape &at) { problem.key.at(at) *= at[2] % 4 == 0 ? 1e-2f : most; });
      problem.score->bias.reset();
      check(std::move(problem), random);
    }
  }

  TEST_CASE("Gaussian points that are near each other and far from the origin") {
    Random random(base_seed());
    for (const int64_t dim : {3, 20, 64}) {
      AttentionProblem problem =
          make(FOVEA_SCORE_GAUSSIAN, {.query_len = 40, .key_len = 70, .head_dim = dim, .value_dim = 4}, 0, random);
      for_each_index(problem.query.shape(), [&](const Shape &at) { problem.query.at(at) += 500; });
      for_each_index(problem.key.shape(), [&](const Shape &at) { problem.key.at(at) += 500; });
      check(std::move(problem), random);
    }
  }

  TEST_CASE("Gaussian points of which about half are so near that differences are taken") {
    Random random(base_seed());
    for (const int64_t dim : {17, 20, 64}) {
      for (const float offset : {1.5F, 2.6F}) {
        AttentionProblem problem =
            make(FOVEA_SCORE_GAUSSIAN, {.query_len = 40, .key_len = 110, .head_dim = dim, .value_dim = 4}, 0, random);
        for_each_index(problem.query.shape(), [&](const Shape &at) { problem.query.at(at) += offset; });
        for_each_index(problem.key.shape(), [&](const Shape &at) { problem.key.at(at) += offset; });
        check(std::move(problem), random);
      }
    }
  }

  TEST_CASE("Gaussian widths past the range in which points are compared as they are") {
    Random random(base_seed());
    for (const float factor : {1e-12f, 1e12f}) {
      AttentionProblem problem =
          make(FOVEA_SCORE_GAUSSIAN, {.query_len = 20, .key_len = 30, .head_dim = 5, .value_dim = 4}, 0, random);
      multiply(problem.query, factor);
      multiply(problem.key, factor);
      problem.score->sigma = factor * 1.5f;
      check(std::move(problem), random);
    }
  }

  TEST_CASE("large scores") {
    Random random(base_seed());
    for (const float factor : {3.0f, 10.0f}) {
      AttentionProblem problem =
          make_attention({.query_len = 90, .key_len = 110, .head_dim = 32, .value_dim = 16}, random);
      multiply(problem.query, factor);
      multiply(problem.key, factor);
      check(std::move(problem), random);
    }
  }
}
