// Gaussian scores of bfloat16 points, whichever way they are computed: by products of pairs where the processor has
// them. What these promise is float32's: each score is as good as that of the squared difference, however near or far
// its two points are.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/attention_problem.hpp"
#include "support/narrow.hpp"

using namespace testing;

namespace {

// How the elements of a point are drawn: of the n-th query or key.
using Draw = std::function<float(int64_t n, Random &random)>;

Draw normal(float scale, float centre = 0) {
  return [=](int64_t, Random &random) { return centre + scale * random.normal(); };
}

void fill(Tensor<float> &points, const Draw &draw, Random &random) {
  for_each_index(points.shape(), [&](const Shape &at) { points.at(at) = rounded_to(draw(at[2], random), FOVEA_BF16); });
}

AttentionProblem make_points(const AttentionSizes &sizes, float sigma, const Draw &query, const Draw &key) {
  Random random(base_seed());
  AttentionProblem problem = make_scored(FOVEA_SCORE_GAUSSIAN, sizes, 0, random);
  problem.scale = 1;
  problem.score->sigma = sigma;
  fill(problem.query, query, random);
  fill(problem.key, key, random);
  fill(problem.value, normal(1), random);
  return problem;
}

// The problem's call with tensors of bfloat16.
struct NarrowCall {
  NarrowTensor query, key, value;
  AttentionArguments arguments;

  NarrowCall(const AttentionProblem &problem, const AttentionResult &result)
      : query(problem.query, FOVEA_BF16),
        key(problem.key, FOVEA_BF16),
        value(problem.value, FOVEA_BF16),
        arguments(problem, result) {
    arguments.query = query.view();
    arguments.key = key.view();
    arguments.value = value.view();
  }

  bool takes_pairs(const fovea_context *context) const {
    fovea_plan *plan = nullptr;
    REQUIRE_OK(arguments.plan(context, &plan));
    char text[512];
    fovea_plan_describe(plan, text, sizeof text);
    fovea_plan_destroy(plan);
    return std::string(text).find("kernels=avx512bf16 ") != std::string::npos;
  }
};

std::vector<float> scores_of(const AttentionProblem &problem, const fovea_context *context) {
  const AttentionResult result = problem.make_result(false);
  Tensor<float> scores(problem.score_shape());
  NarrowCall call(problem, result);
  const fovea_tensor view = scores.view();
  call.arguments.options.scores = &view;
  REQUIRE_OK(call.arguments.run(context));
  return scores.dense();
}

AttentionResult outputs_of(const AttentionProblem &problem, const fovea_context *context) {
  AttentionResult result = problem.make_result(false);
  REQUIRE_OK(NarrowCall(problem, result).arguments.run(context));
  return result;
}

// The scores of every query with every key.
std::vector<double> exact_scores(const AttentionProblem &problem) {
  const double sigma = problem.score->sigma;
  std::vector<double> scores;
  for (int64_t query = 0; query < problem.sizes.query_len; ++query) {
    for (int64_t key = 0; key < problem.sizes.key_len; ++key) {
      double sum = 0;
      for (int64_t d = 0; d < problem.sizes.head_dim; ++d) {
        const double difference = double(problem.query(0, 0, query, d)) - double(problem.key(0, 0, key, d));
        sum += difference * difference;
      }
      scores.push_back(-sum / (2 * sigma * sigma));
    }
  }
  return scores;
}

// Each score by itself: half a rounding for each feature, and those of a difference, a norm and a scale. Sums below the
// normal numbers lose more.
void check_each_score(const AttentionProblem &problem) {
  CAPTURE(problem.sizes.head_dim);
  CAPTURE(problem.score->sigma);
  const double sigma = problem.score->sigma;
  const double relative = (16 + static_cast<double>(problem.sizes.head_dim) / 2) * 0x1p-24;
  const double least = 0x1p-149 * static_cast<double>(problem.sizes.head_dim) / (sigma * sigma);
  const std::vector<double> exact_ones = exact_scores(problem);
  for_each_isa([&](const fovea_context *context) {
    const std::vector<float> scores = scores_of(problem, context);
    int64_t wrong = 0;
    double worst = 0;
    for (size_t n = 0; n < exact_ones.size(); ++n) {
      const double got = scores[n], exact = exact_ones[n];
      const double error = std::abs(got - exact) / (relative * std::abs(exact) + least);
      worst = std::max(worst, error);
      wrong += !(error <= 1) || got > 0 || (exact == 0 && got != 0);
    }
    CAPTURE(worst);
    CHECK_EQ(wrong, 0);
  });
}

constexpr int64_t kDims[] = {2, 16, 18, 30, 34, 62, 64, 66, 126, 128, 130, 192, 194, 500, 1024, 17, 65};

}  // namespace

TEST_SUITE("scores of pairs") {
  TEST_CASE("Gaussian of bfloat16: each score beside its own size, points far apart, near, the same, and all of that") {
    for (const int64_t dim : kDims) {
      const auto check = [&](float sigma, const Draw &query, const Draw &key) {
        check_each_score(make_points({.query_len = 70, .key_len = 101, .head_dim = dim}, sigma, query, key));
      };
      check(2.53f, normal(1), normal(1));
      check(0.1f, normal(1, 300), normal(1, -100));
      check(1, normal(1), normal(1e-3f));
      check(0.3f, normal(0.02f, 1.1f), normal(0.02f, 1.1f));
      check(1, normal(0), normal(0));
      check(1, normal(0, 1.1f), normal(0, 1.1f));
      // Around the origin, near to each other, far out on either side: by turns, and in runs.
      const auto mixed = [](int64_t run) {
        return [run](int64_t n, Random &random) {
          const int64_t kind = n / run % 4;
          return kind == 0 ? random.normal() : (kind == 1 ? 50.0f : kind == 2 ? -50.0f : 2.0f) + 0.3f * random.normal();
        };
      };
      for (const int64_t run : {1, 6, 24}) check(1, mixed(run), mixed(1));
      for (const int64_t run : {1, 6, 24}) check(1, mixed(1), mixed(run));
    }
  }

  // Products and sums that the processor's own instruction takes for 0, and a sigma that makes them matter.
  TEST_CASE("Gaussian of bfloat16: points whose squares are next to nothing, and next to infinity") {
    for (const int64_t dim : {18, 64, 130}) {
      for (const float size : {1e-21f, 1e-20f, 1e-19f, 1e-18f, 1e-16f, 1e-13f, 1e-12f, 1e-11f, 1e-5f, 1e10f, 1e17f}) {
        CAPTURE(size);
        const auto check = [&](const Draw &query, const Draw &key) {
          check_each_score(
              make_points({.query_len = 66, .key_len = 50, .head_dim = dim}, std::max(size, 2e-19f), query, key));
        };
        check(normal(size), normal(size));
        check(normal(0, size), normal(0, size));
        check(normal(0, size), normal(size / 50, size));
        check(normal(size), normal(0, 1e-39f));
        // A few features are all there is of a point.
        const auto sparse = [size](int64_t n, Random &random) {
          return n % 3 != 0 && random.chance(0.1) ? size * random.normal() : 1e-39f * random.normal();
        };
        check(sparse, sparse);
      }
    }
  }

  TEST_CASE("Gaussian of bfloat16: a point that is a key has the score 0, wherever it is") {
    for (const int64_t dim : kDims) {
      for (const float size : {1e-40f, 1e-23f, 1e-19f, 1e-15f, 1e-6f, 1.0f, 300.0f, 1e9f, 1e18f, 1e19f, 3e38f}) {
        CAPTURE(dim);
        CAPTURE(size);
        const Draw same = [size](int64_t n, Random &) { return size * (n % 2 == 0 ? 1.0f : 0.7f); };
        const AttentionProblem problem =
            make_points({.query_len = 70, .key_len = 30, .head_dim = dim}, std::min(size, 1.0f), same, same);
        for_each_isa([&](const fovea_context *context) {
          const std::vector<float> scores = scores_of(problem, context);
          int64_t wrong = 0;
          for (int64_t n = 0; n < 70 * 30; ++n) {
            const float score = scores[static_cast<size_t>(n)];
            wrong += (n / 30 % 2 == n % 30 % 2) ? score != 0 : !(score <= 0);
          }
          CHECK_EQ(wrong, 0);
        });
      }
    }
  }

  TEST_CASE("Gaussian of bfloat16: a row's bits do not depend on the other queries, a score's not on the other keys") {
    AttentionProblem problem =
        make_points({.query_len = 90, .key_len = 150, .head_dim = 34, .value_dim = 24}, 3, normal(1), normal(1));
    const std::vector<float> queries = problem.query.dense(), keys = problem.key.dense();
    const auto change = [](Tensor<float> &points, const std::vector<float> &from, int64_t kept, float factor) {
      size_t next = 0;
      for_each_index(points.shape(), [&](const Shape &at) {
        const float given = from[next++];
        points.at(at) = at[2] == kept ? given : rounded_to(given * factor, FOVEA_BF16);
      });
    };
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult expected = outputs_of(problem, context);
      const std::vector<float> expected_scores = scores_of(problem, context);
      for (const float factor : {0.0f, 8.0f, 128.0f, 1e6f, kInfinity, kNan}) {
        for (const int64_t kept : {0, 7, 16, 63, 89}) {
          CAPTURE(factor);
          CAPTURE(kept);
          change(problem.query, queries, kept, factor);
          const AttentionResult result = outputs_of(problem, context);
          for (int64_t d = 0; d < 24; ++d) CHECK(result.out(0, 0, kept, d) == expected.out(0, 0, kept, d));
          change(problem.key, keys, kept, factor);
          const size_t at = static_cast<size_t>(kept * 150 + kept);
          CHECK(scores_of(problem, context)[at] == expected_scores[at]);
          problem.key.assign(keys);
        }
      }
      problem.query.assign(queries);
    });
  }

  // After a block of near pairs the difference is made first. Of a key whose sign is turned in a share f of its
  // features the score is f of the sum of squares, and a quarter of that is where near ends.
  TEST_CASE("Gaussian of bfloat16: which way a pair goes does not depend on the keys before it") {
    constexpr int64_t kKeys = 80, kFirst = 48;
    for (const int64_t dim : {34, 128}) {
      for (const float share : {0.2f, 0.23f, 0.25f, 0.27f, 0.3f, 0.34f, 0.4f, 0.6f}) {
        CAPTURE(dim);
        CAPTURE(share);
        AttentionProblem problem =
            make_points({.query_len = 70, .key_len = kKeys, .head_dim = dim}, 1, normal(0.05f, 1), normal(0.05f, 1));
        for_each_index(problem.key.shape(), [&](const Shape &at) {
          const bool turned = static_cast<float>(at[3]) < share * static_cast<float>(dim);
          if (at[2] >= kFirst && turned) problem.key.at(at) *= -1;
        });
        const std::vector<float> near = problem.key.dense();
        std::vector<float> far = near;
        for (size_t n = 0; n < static_cast<size_t>(kFirst * dim); ++n) far[n] *= -1;
        for_each_isa([&](const fovea_context *context) {
          problem.key.assign(near);
          const std::vector<float> after_near = scores_of(problem, context);
          problem.key.assign(far);
          const std::vector<float> after_far = scores_of(problem, context);
          int64_t differ = 0;
          for (int64_t n = 0; n < 70 * kKeys; ++n) {
            const size_t at = static_cast<size_t>(n);
            differ += n % kKeys >= kFirst && after_near[at] != after_far[at];
          }
          CHECK_EQ(differ, 0);
        });
      }
    }
  }

  TEST_CASE("Gaussian of bfloat16: the same bits for 1 to 8 threads, and for a query alone where that is asked for") {
    for (const float centre : {0.0f, 30.0f}) {
      AttentionProblem problem = make_points(
          {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 150, .key_len = 333, .head_dim = 48, .value_dim = 40}, 2,
          normal(1), normal(1, centre));
      problem.flags = FOVEA_QUERY_INVARIANT;
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const AttentionResult one = outputs_of(problem, shared_context(isa, 1));
        for (int threads = 2; threads <= 8; ++threads) {
          CHECK(same_bits(one, outputs_of(problem, shared_context(isa, threads))));
        }
        const AttentionResult alone = problem.make_result(false);
        for (int64_t query = 0; query < 150; ++query) {
          NarrowCall call(problem, alone);
          for (fovea_tensor *tensor : {&call.arguments.query, &call.arguments.out}) {
            const int64_t size = tensor == &call.arguments.query ? 2 : 4;
            tensor->data = static_cast<char *>(tensor->data) + query * tensor->strides[2] * size;
            tensor->shape[2] = 1;
          }
          call.arguments.options.log_sum_exp = nullptr;
          REQUIRE_OK(call.arguments.run(shared_context(isa, 1)));
        }
        CHECK(same_bits(one.out, alone.out));
      }
    }
  }

  TEST_CASE("Gaussian of bfloat16: many rows of more than 16 features, in pairs, take products of pairs") {
    struct Case {
      int64_t query_len, head_dim;
      bool pairs;
    };
    for (const Case &c : {Case{70, 64, true}, Case{70, 18, true}, Case{17, 18, true}, Case{70, 16, false},
                          Case{70, 2, false}, Case{70, 65, false}, Case{1, 64, false}, Case{4, 64, false}}) {
      const AttentionProblem problem = make_points(
          {.query_len = c.query_len, .key_len = 300, .head_dim = c.head_dim, .value_dim = 8}, 1, normal(1), normal(1));
      const AttentionResult result = problem.make_result(false);
      for_each_isa([&](const fovea_context *context) {
        const std::string isa = fovea_isa_name(context);
        NarrowCall call(problem, result);
        const bool has = (isa == "avx512" || isa == "amx") && has_products_of(FOVEA_BF16, context);
        CHECK_EQ(call.takes_pairs(context), c.pairs && has);
        call.arguments.value = problem.value.view();
        CHECK_FALSE(call.takes_pairs(context));
      });
    }
  }
}
