// Score functions where float32 is hard: tanh that saturates, exponentials that would overflow, NaN and infinity on
// both sides of a mask and in the parameters, distances between points far from the origin.
#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>

#include "support/attention_problem.hpp"
#include "support/poison.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {
    .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 19, .key_len = 70, .head_dim = 9, .value_dim = 11};

AttentionProblem make_problem(int32_t kind, int64_t query_len = kSizes.query_len, int64_t hidden = 21) {
  Random random(base_seed());
  AttentionSizes sizes = kSizes;
  sizes.query_len = query_len;
  if (takes_two_dims(kind)) sizes.key_dim = 6;
  return make_scored(kind, sizes, hidden, random);
}

void multiply(const Tensor<float> &tensor, float factor) {
  tensor.memory().thaw();
  for_each_index(tensor.shape(), [&](const Shape &at) { tensor.at(at) *= factor; });
}

// Additive over one feature that is 1 for queries and keys: unit u gets offset(u) from each query and -offset(u) from
// each key, beside what the other features give. The sums stay small, the projections and their exponentials do not.
template <typename Offset>
AttentionProblem make_opposed(Offset offset, int64_t query_len) {
  AttentionProblem problem = make_problem(FOVEA_SCORE_ADDITIVE, query_len);
  for_each_index(problem.query.shape(), [&](const Shape &at) {
    if (at[3] == 0) problem.query.at(at) = 1;
  });
  for_each_index(problem.key.shape(), [&](const Shape &at) {
    if (at[3] == 0) problem.key.at(at) = 1;
  });
  for (int64_t u = 0; u < 21; ++u) {
    (*problem.score->query_weight)(u, 0) = offset(u);
    (*problem.score->key_weight)(u, 0) = -offset(u);
  }
  return problem;
}

}  // namespace

TEST_SUITE("scores numerics") {
  TEST_CASE("inputs of any size: tanh goes to +-1") {
    for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (int64_t query_len : {1, 3, 19}) {
        for (float factor : {1e-30f, 1e-4f, 3.0f, 10.0f, 30.0f, 100.0f, 1e4f, 1e10f, 1e30f}) {
          CAPTURE(factor);
          AttentionProblem both = make_problem(kind, query_len);
          multiply(both.query, factor);
          multiply(both.key, factor);
          check_attention(both);
          AttentionProblem queries = make_problem(kind, query_len);
          multiply(queries.query, factor);
          check_attention(queries);
          AttentionProblem keys = make_problem(kind, query_len);
          multiply(keys.key, factor);
          check_attention(keys);
        }
      }
    }
  }

  TEST_CASE("one unit, one query, one key that is huge among ordinary ones") {
    for (int64_t query_len : {1, 3, 19}) {
      for (float factor : {-1e30f, -1e4f, -90.0f, -45.0f, 45.0f, 90.0f, 1e4f, 1e30f}) {
        CAPTURE(factor);
        for (int64_t unit : {0, 1, 2, 7, 20}) {
          AttentionProblem query_side = make_problem(FOVEA_SCORE_ADDITIVE, query_len);
          for (int64_t d = 0; d < 9; ++d) (*query_side.score->query_weight)(unit, d) *= factor;
          check_attention(query_side);
          AttentionProblem key_side = make_problem(FOVEA_SCORE_ADDITIVE, query_len);
          for (int64_t d = 0; d < 6; ++d) (*key_side.score->key_weight)(unit, d) *= factor;
          check_attention(key_side);
          AttentionProblem bias = make_problem(FOVEA_SCORE_CONCAT, query_len);
          (*bias.score->bias)(unit) = factor;
          check_attention(bias);
        }
        AttentionProblem row = make_problem(FOVEA_SCORE_ADDITIVE, query_len);
        for (int64_t d = 0; d < 9; ++d) row.query(1, 2, query_len / 2, d) *= factor;
        for (int64_t d = 0; d < 6; ++d) row.key(1, 1, 17, d) *= factor;
        check_attention(row);
      }
    }
  }

  TEST_CASE("projections that are far apart and cancel") {
    for (int64_t query_len : {1, 19}) {
      for (float size : {1.0f, 10.0f, 21.0f, 22.0f, 40.0f, 43.0f, 44.0f, 45.0f, 60.0f, 80.0f, 87.0f, 89.0f, 100.0f,
                         300.0f, 1000.0f, 1e4f}) {
        CAPTURE(size);
        check_attention(make_opposed([size](int64_t) { return size; }, query_len));
        check_attention(make_opposed([size](int64_t) { return -size; }, query_len));
        check_attention(make_opposed([size](int64_t u) { return u % 2 == 0 ? size : -size; }, query_len));
        check_attention(make_opposed([size](int64_t u) { return u == 5 ? size : 0.0f; }, query_len));
        check_attention(make_opposed([size](int64_t u) { return size * static_cast<float>(u) / 20; }, query_len));
      }
    }
  }

  TEST_CASE("units that pass from one saturation to the other along the keys") {
    for (float reach : {5.0f, 20.0f, 44.0f, 88.0f, 200.0f, 5000.0f}) {
      for (int64_t query_len : {1, 19}) {
        AttentionProblem problem = make_problem(FOVEA_SCORE_ADDITIVE, query_len);
        for_each_index(problem.key.shape(), [&](const Shape &at) {
          problem.key.at(at) = at[3] == 0 ? reach * (static_cast<float>(at[2]) / 34.5f - 1) : 0.0f;
        });
        problem.score->key_weight->fill([] { return 1.0f; });
        check_attention(problem);
      }
    }
  }

  TEST_CASE("score vectors of mixed sizes") {
    for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (float factor : {0.0f, 1e-20f, 1e-3f, 20.0f, 1e4f}) {
        CAPTURE(factor);
        AttentionProblem all = make_problem(kind);
        multiply(*all.score->score_vector, factor);
        check_attention(all);
        AttentionProblem one = make_problem(kind);
        (*one.score->score_vector)(3) *= factor;
        check_attention(one);
      }
      for (int64_t query_len : {1, 19}) {
        for (float factor : {1e-30f, 1e30f}) {  // out of what four units may share a reciprocal with
          CAPTURE(factor);
          AttentionProblem scaled = make_problem(kind, query_len);
          multiply(scaled.query, 4);
          multiply(*scaled.score->score_vector, factor);
          scaled.scale = 1 / factor;
          check_attention(scaled);
        }
      }
    }
  }

  TEST_CASE("bilinear of any scale") {
    for (int64_t query_len : {1, 19}) {
      for (float factor : {1e-30f, 1e-10f, 1e3f, 1e10f}) {
        AttentionProblem problem = make_problem(FOVEA_SCORE_BILINEAR, query_len);
        multiply(problem.query, factor);
        multiply(*problem.score->weight, 1 / factor);
        check_attention(problem);
      }
    }
  }

  TEST_CASE("NaN and infinity behind a mask change nothing") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 2, 19, 40}) {
        AttentionProblem problem = make_problem(kind, query_len);
        problem.set_valid_lens({23, 64});
        check_poison(problem, [](int64_t b, int64_t j) { return j >= (b == 0 ? 23 : 64); });
        problem.set_valid_lens({0, 1});
        check_poison(problem, [](int64_t b, int64_t j) { return j >= b; });
        problem.valid_lens32.reset();

        problem.set_mask([](int64_t b, int64_t, int64_t, int64_t j) { return (j + b) % 5 < 3; });
        check_poison(problem, [](int64_t b, int64_t j) { return (j + b) % 5 >= 3; });
        problem.mask.reset();

        problem.bias.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([n = 0]() mutable {
          return n++ % 4 == 1 ? -kInfinity : 0.1f * static_cast<float>(n % 7);
        });
        check_poison(problem, [](int64_t, int64_t j) { return j % 4 == 1; });
        problem.bias.reset();

        problem.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
        problem.query_offset = 10;
        check_poison(problem, [&](int64_t, int64_t j) { return j > 10 + query_len - 1; });
        problem.flags = FOVEA_WINDOW_LEFT | FOVEA_QUERY_OFFSET;
        problem.query_offset = 40;
        problem.window_left = 6;
        check_poison(problem, [&](int64_t, int64_t j) { return j < 34; });
        problem.flags = FOVEA_LEAVE_ONE_OUT | FOVEA_QUERY_OFFSET;
        if (query_len == 1) check_poison(problem, [&](int64_t, int64_t j) { return j == 40; });
      }
    }
  }

  // Their tile then goes key by key, the forms side by side.
  TEST_CASE("keys that ask for another form of the sum change no bit of the others' scores") {
    for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      for (int64_t query_len : {1, 3, 19}) {
        AttentionProblem problem = make_problem(kind, query_len);
        const auto attended = [](int64_t j) { return j % 7 < 5; };
        problem.set_mask([&](int64_t, int64_t, int64_t, int64_t j) { return attended(j); });
        const std::vector<float> key = problem.key.dense();
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult expected = problem.make_result(false), result = problem.make_result(false);
          REQUIRE_OK(problem.run(context, expected));
          for (float factor : {8.0f, 20.0f, 1000.0f}) {
            CAPTURE(factor);
            problem.key.memory().thaw();
            for_each_index(problem.key.shape(), [&](const Shape &at) {
              if (!attended(at[2])) problem.key.at(at) *= factor;
            });
            REQUIRE_OK(problem.run(context, result));
            CHECK(same_bits(result, expected));
            problem.key.assign(key);
          }
        });
      }
    }
  }

  TEST_CASE("a key of NaN that some rows attend and others do not") {
    for (int32_t kind : kScoreKinds) {
      AttentionProblem problem = make_problem(kind);
      problem.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT;
      problem.key.memory().thaw();
      for (int64_t b : {0, 1}) {
        for (int64_t h : {0, 1}) problem.key(b, h, 5, 2) = kNan;
      }
      check_attention(problem);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result();
        REQUIRE_OK(problem.run(context, result));
        for_each_index(result.out.shape(),
                       [&](const Shape &at) { CHECK(std::isnan(result.out.at(at)) == (at[2] >= 5)); });
      });
    }
  }

  TEST_CASE("NaN in a query or in a key that is attended") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 19}) {
        for (int64_t j : {0, 1, 16, 63, 69}) {
          AttentionProblem key = make_problem(kind, query_len);
          key.key(1, 1, j, 2) = kNan;
          check_attention(key);
        }
        AttentionProblem query = make_problem(kind, query_len);
        query.query(1, 2, query_len - 1, 5) = kNan;
        check_attention(query);
        AttentionProblem empty = make_problem(kind, query_len);
        empty.query(0, 2, 0, 5) = kNan;
        empty.set_valid_lens({0, 40});
        check_attention(empty);
      }
    }
  }

  TEST_CASE("infinity in a query or in a key that is attended") {
    for (int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT, FOVEA_SCORE_GAUSSIAN}) {
      for (int64_t query_len : {1, 19}) {
        for (float infinity : {kInfinity, -kInfinity}) {
          AttentionProblem query = make_problem(kind, query_len);
          query.query(1, 2, query_len - 1, 5) = infinity;
          check_attention(query);
          for (int64_t j : {0, 16, 69}) {
            AttentionProblem key = make_problem(kind, query_len);
            key.key(1, 1, j, 2) = infinity;
            check_attention(key);
            key.query.memory().thaw();
            key.query(1, 2, 0, 2) = infinity;  // the pair gives infinity minus infinity
            check_attention(key);
          }
        }
      }
    }
  }

  TEST_CASE("NaN and infinity in the parameters") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 19}) {
        for (float bad : {kNan, kInfinity, -kInfinity}) {
          if (kind == FOVEA_SCORE_BILINEAR && bad != kNan) continue;  // depends on the order of the two products
          const size_t count = make_problem(kind).score->parameters().size();
          for (size_t n = 0; n < count; ++n) {
            AttentionProblem problem = make_problem(kind, query_len);
            const ScoreFunction::Parameter spoiled = problem.score->parameters()[n];
            CAPTURE(spoiled.name);
            CAPTURE(bad);
            spoiled.tensor->at(Shape(spoiled.tensor->shape().size(), 2)) = bad;
            problem.set_valid_lens({0, 50});  // rows that attend nothing stay clean
            check_attention(problem);
          }
        }
      }
    }
  }

  TEST_CASE("Gaussian: far from the origin, in one place or in two, as good as the differences") {
    for (int64_t query_len : {1, 3, 19, 80}) {
      for (float centre : {100.0f, 1e4f, -1e5f, 1e6f}) {
        for (float sigma : {0.3f, 1.0f, 10.0f, 1000.0f}) {
          CAPTURE(centre);
          AttentionProblem one = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
          one.score->sigma = sigma;
          one.query.fill([&, random = Random(1)]() mutable { return centre + random.normal(); });
          one.key.fill([&, random = Random(2)]() mutable { return centre + random.normal(); });
          check_attention(one);
          // Half of the keys at either side of the origin: their mean is near it, they are not.
          AttentionProblem two = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
          two.score->sigma = sigma;
          Random random(base_seed());
          for_each_index(two.query.shape(), [&](const Shape &at) {
            two.query.at(at) = random.normal() + (at[2] % 2 == 0 ? centre : -centre);
          });
          for_each_index(two.key.shape(), [&](const Shape &at) {
            two.key.at(at) = random.normal() + (at[2] % 2 == 0 ? centre : -centre);
          });
          check_attention(two);
        }
      }
    }
  }

  TEST_CASE("Gaussian: one far key, and one far query, do not spoil the others") {
    for (int64_t query_len : {1, 19}) {
      for (float far : {100.0f, 1e4f, 1e8f, 1e15f}) {
        AttentionProblem problem = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
        for (int64_t d = 0; d < 9; ++d) problem.key(1, 1, 30, d) = far;
        check_attention(problem);
      }
      // No further: float32 does not tell the keys apart that are 1e4 away.
      AttentionProblem problem = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
      for (int64_t d = 0; d < 9; ++d) problem.query(0, 1, 0, d) = -100;
      check_attention(problem);
    }
  }

  TEST_CASE("Gaussian: a query that is a key; kernels narrower than the gaps and wider than the data") {
    for (int64_t query_len : {1, 19, 70}) {
      for (float sigma : {FLT_TRUE_MIN, FLT_MIN, 1e-20f, 1e-10f, 1e-3f, 1e3f, 1e10f, 1e20f, FLT_MAX}) {
        CAPTURE(sigma);
        for (float centre : {0.0f, 1e4f}) {
          AttentionProblem problem = make_problem(FOVEA_SCORE_GAUSSIAN, query_len);
          problem.score->sigma = sigma;
          problem.key.fill([&, random = Random(2)]() mutable { return centre + random.normal(); });
          for_each_index(problem.query.shape(),
                         [&](const Shape &at) { problem.query.at(at) = problem.key(at[0], at[1] / 2, at[2], at[3]); });
          check_attention(problem);
        }
      }
    }
  }
}
