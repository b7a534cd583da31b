// NaN, infinities, denormals and large scores: what must not leak, what must arrive, what must not overflow.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "support/attention_problem.hpp"
#include "support/poison.hpp"
#include "support/ragged.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {
    .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 19, .key_len = 70, .head_dim = 9, .value_dim = 11};

AttentionProblem make_problem(int64_t query_len = kSizes.query_len) {
  Random random(base_seed());
  AttentionSizes sizes = kSizes;
  sizes.query_len = query_len;
  return make_attention(sizes, random);
}

// The last query is NaN, and the last value, which only that query attends: other rows have the bits they have beside 1.
void check_beside_a_row_of_nan(fovea_dtype key_type, int64_t value_dim) {
  Random random(base_seed());
  AttentionProblem problem =
      make_attention({.query_len = 13, .key_len = 19, .head_dim = 18, .value_dim = value_dim}, random);
  problem.flags = FOVEA_CAUSAL;
  for (int64_t d = 0; d < 18; ++d) problem.query(0, 0, 12, d) = kNan;
  const RaggedRows key = rows_of_type(problem.key, key_type);
  for_each_isa([&](const fovea_context *context) {
    std::optional<AttentionResult> results[2];
    for (const bool spoilt : {false, true}) {
      for (int64_t d = 0; d < value_dim; ++d) problem.value(0, 0, 18, d) = spoilt ? kNan : 1;
      results[spoilt].emplace(problem.make_result(true));
      AttentionArguments call(problem, *results[spoilt]);
      const std::optional<fovea_tensor> scales = key.scales();
      call.key = key.view();
      call.options.key_scales = scales ? &*scales : nullptr;
      REQUIRE_OK(call.run(context));
    }
    for_each_index({1, 1, 12, value_dim},
                   [&](const Shape &at) { CHECK(results[1]->out.at(at) == results[0]->out.at(at)); });
  });
}

}  // namespace

TEST_SUITE("sdpa numerics") {
  TEST_CASE("NaN and infinity behind a mask change nothing") {
    for (int64_t query_len : {1, 2, 19, 40}) {
      CAPTURE(query_len);
      AttentionProblem problem = make_problem(query_len);
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
      // Windows that start anywhere within a step of the sums: a tile may begin before the first key attended.
      for (int64_t window : {4, 5, 6, 7, 8, 9}) {
        CAPTURE(window);
        problem.window_left = window;
        check_poison(problem, [&](int64_t, int64_t j) { return j < 40 - window; });
      }
    }
  }

  TEST_CASE("poison that some rows attend and others do not") {
    // Key 5 holds NaN. Rows that mask it are clean, rows that attend it are NaN.
    AttentionProblem problem = make_problem();
    problem.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT;
    poison(problem, [](int64_t, int64_t j) { return j == 5; });
    AttentionProblem left_out = make_problem(kSizes.key_len);
    left_out.flags = FOVEA_LEAVE_ONE_OUT;
    poison(left_out, [](int64_t, int64_t j) { return j == 33; });
    for_each_isa([&](const fovea_context *context) {
      for (bool weights : {false, true}) {
        const AttentionResult causal = problem.make_result(weights), others = left_out.make_result(weights);
        REQUIRE_OK(problem.run(context, causal));
        REQUIRE_OK(left_out.run(context, others));
        for_each_index(causal.out.shape(),
                       [&](const Shape &at) { CHECK(std::isnan(causal.out.at(at)) == (at[2] >= 5)); });
        for_each_index(others.out.shape(),
                       [&](const Shape &at) { CHECK(std::isnan(others.out.at(at)) == (at[2] != 33)); });
      }
    });
  }

  TEST_CASE("weights of a row of NaN: NaN where it attends, 0 where it does not, and its neighbours are whole") {
    for (const int n : {0, 1, 2}) {
      const bool average = n == 1,
                 in_key = n == 2;  // a NaN in the query makes all scores NaN, one in a key a single one
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.heads = 2, .kv_heads = 2, .query_len = 70, .key_len = 230, .head_dim = 8, .value_dim = 5}, random);
      problem.set_mask([](int64_t, int64_t, int64_t i, int64_t j) { return (i + j) % 3 != 0; });
      problem.flags = average ? FOVEA_AVERAGE_WEIGHTS : 0;
      (in_key ? problem.key(0, 1, 150, 3) : problem.query(0, 1, 66, 3)) = kNan;
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result();
        REQUIRE_OK(problem.run(context, result));
        for (int64_t i : {65, 66, 67}) {
          const bool is_nan = in_key ? (i + 150) % 3 != 0 : i == 66;
          for (int64_t j = 0; j < 230; ++j) {
            const float weight = average ? (*result.weights)(0, i, j) : (*result.weights)(0, 1, i, j);
            const bool attended = (i + j) % 3 != 0;
            CHECK(std::isnan(weight) == (attended && is_nan));
            if (!attended) CHECK(weight == 0);
          }
        }
      });
    }
  }

  // Rows of NaN had their weights written before other rows were computed again, over the copies of keys that those read.
  // How much of one lay where the other did went by the sizes of rows.
  TEST_CASE("weights beside a row of NaN and a value behind the mask: keys that are copied stay whole") {
    for (const fovea_dtype type : {FOVEA_F32, FOVEA_F16, FOVEA_BF16, FOVEA_I8}) {
      for (const int64_t value_dim : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48}) {
        CAPTURE(type);
        CAPTURE(value_dim);
        check_beside_a_row_of_nan(type, value_dim);
      }
    }
  }

  TEST_CASE("NaN that is attended reaches the output") {
    for (int64_t query_len : {1, 19}) {
      for (int64_t at : {0, 1, 16, 63, 69}) {
        CAPTURE(query_len);
        CAPTURE(at);
        AttentionProblem in_value = make_problem(query_len);
        in_value.value(0, 0, at, 3) = kNan;
        check_attention(in_value);
        AttentionProblem in_key = make_problem(query_len);
        in_key.key(1, 1, at, 2) = kNan;
        check_attention(in_key);
        AttentionProblem in_bias = make_problem(query_len);
        in_bias.bias.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([] { return 0.0f; });
        (*in_bias.bias)(0, 0, 0, at) = kNan;
        check_attention(in_bias);
      }
      AttentionProblem in_query = make_problem(query_len);
      in_query.query(1, 2, 0, 8) = kNan;
      check_attention(in_query);
    }
  }

  TEST_CASE("poison at the edges of long tiles, and of the pieces a row is computed again in") {
    for (int64_t query_len : {1, 3}) {
      for (int64_t edge : {48, 95, 96, 97, 191, 192, 193, 383, 384, 385}) {
        CAPTURE(query_len);
        CAPTURE(edge);
        Random random(base_seed());
        AttentionProblem problem = make_attention(
            {.heads = 2, .kv_heads = 2, .query_len = query_len, .key_len = 400, .head_dim = 9, .value_dim = 17},
            random);
        problem.set_mask([edge](int64_t, int64_t, int64_t, int64_t j) { return j < edge; });
        check_poison(problem, [edge](int64_t, int64_t j) { return j >= edge; });
        problem.set_mask([edge](int64_t, int64_t, int64_t, int64_t j) { return j >= edge; });
        check_poison(problem, [edge](int64_t, int64_t j) { return j < edge; });
        problem.set_mask([edge](int64_t, int64_t, int64_t, int64_t j) { return j != edge - 1; });
        check_poison(problem, [edge](int64_t, int64_t j) { return j == edge - 1; });
      }
    }
  }

  TEST_CASE("poison behind the lengths and before the windows of one query's lines") {
    for (int64_t edge : {383, 385, 1535, 1536, 1537}) {
      CAPTURE(edge);
      Random random(base_seed());
      AttentionProblem problem = make_attention(
          {.heads = 16, .kv_heads = 16, .query_len = 1, .key_len = 1700, .head_dim = 9, .value_dim = 17}, random);
      problem.set_valid_lens({edge});
      check_poison(problem, [edge](int64_t, int64_t j) { return j >= edge; });
      problem.valid_lens32.reset();
      problem.flags = FOVEA_WINDOW_LEFT | FOVEA_CAUSAL;
      problem.window_left = 1699 - edge;
      check_poison(problem, [edge](int64_t, int64_t j) { return j < edge; });
    }
  }

  TEST_CASE("a weight of zero is not a mask: beside poison behind one, an infinite value still gives NaN") {
    for (int64_t query_len : {1, 3, 40}) {
      AttentionProblem problem = make_problem(query_len);
      problem.set_mask([](int64_t, int64_t, int64_t, int64_t j) { return j != 3; });
      problem.bias.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([n = 0]() mutable { return n++ == 7 ? -1e30f : 0; });
      problem.value.memory().thaw();
      problem.value(0, 0, 3, 1) = kInfinity;
      problem.value(0, 0, 7, 2) = kInfinity;
      check_attention(problem);
    }
  }

  TEST_CASE("poison and splits: masked it changes nothing, attended it arrives") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.heads = 4, .kv_heads = 2, .query_len = 1, .key_len = 3000, .head_dim = 9, .value_dim = 11}, random);
    problem.set_valid_lens({1100});
    check_poison(problem, [](int64_t, int64_t j) { return j >= 1100; });
    problem.valid_lens32.reset();
    problem.set_mask([](int64_t, int64_t, int64_t, int64_t j) { return j % 1000 > 900; });
    check_poison(problem, [](int64_t, int64_t j) { return j % 1000 <= 900; });
    problem.mask.reset();
    for (int64_t at : {0, 700, 1500, 2999}) {
      CAPTURE(at);
      const std::vector<float> key = problem.key.dense(), value = problem.value.dense();
      problem.value.memory().thaw();
      problem.value(0, 0, at, 3) = kNan;
      problem.value(0, 1, at, 7) = kInfinity;
      check_attention(problem);
      problem.key.memory().thaw();
      problem.key(0, 1, at, 2) = kNan;
      check_attention(problem);
      problem.key.assign(key);
      problem.value.assign(value);
    }
  }

  TEST_CASE("a score of +infinity gives a row of NaN, as inf - inf does, and a log-sum-exp of +infinity") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 3, 19}) {
        Random random(base_seed());
        AttentionSizes sizes = kSizes;
        sizes.query_len = query_len;
        AttentionProblem problem = make_scored(kind, sizes, 5, random);
        problem.bias.emplace(problem.score_shape()).fill([] { return 0.0f; });
        (*problem.bias)(0, 1, 0, 30) = kInfinity;
        (*problem.bias)(1, 2, 0, 0) = (*problem.bias)(1, 2, 0, 69) = kInfinity;
        check_attention(problem);
        problem.set_mask([](int64_t b, int64_t, int64_t, int64_t j) { return b == 0 || j != 69; });
        check_attention(problem);
      }
    }
    // In a key: in one split of many, for few queries, and in one tile of many.
    for (int64_t query_len : {1, 40}) {
      for (int64_t at : {0, 700, 4999}) {
        Random random(base_seed());
        AttentionProblem problem = make_attention({.query_len = query_len, .key_len = 5000, .head_dim = 4}, random);
        problem.query.fill([&] { return 0.5f + random.uniform(0, 1); });
        problem.key(0, 0, at, 2) = kInfinity;
        for_each_isa([&](const fovea_context *context) {
          for (bool weights : {false, true}) {
            const AttentionResult result = problem.make_result(weights);
            REQUIRE_OK(problem.run(context, result));
            for (float lse : result.log_sum_exp->dense()) CHECK(lse == kInfinity);
            for (float value : result.out.dense()) CHECK(std::isnan(value));
            if (weights) {
              for (float weight : result.weights->dense()) CHECK(std::isnan(weight));
            }
          }
        });
      }
    }
  }

  TEST_CASE("an infinite value that is attended gives that infinity") {
    for (int64_t query_len : {1, 19}) {
      for (int64_t at : {0, 17, 69}) {
        AttentionProblem problem = make_problem(query_len);
        problem.value(0, 0, at, 3) = kInfinity;
        problem.value(1, 1, at, 10) = -kInfinity;
        check_attention(problem);
      }
    }
  }

  TEST_CASE("queries that are masked whole may hold NaN") {
    AttentionProblem problem = make_problem(3);
    problem.set_valid_lens({40, 0, 40, 40, 40, 40});
    for (int64_t h = 0; h < 4; ++h) problem.query(0, h, 1, 0) = kNan;
    check_attention(problem);
  }

  TEST_CASE("scores too large for exp, of either sign") {
    for (int64_t query_len : {1, 19}) {
      for (float shift : {-1e30f, -1e4f, -200.0f, 200.0f, 1e4f, 1e30f}) {
        CAPTURE(shift);
        AttentionProblem problem = make_problem(query_len);
        problem.bias.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([shift] { return shift; });
        check_attention(problem);
      }
      AttentionProblem spread = make_problem(query_len);
      Random random(base_seed());
      spread.bias.emplace(spread.score_shape()).fill([&] { return random.uniform(-300, 300); });
      check_attention(spread);
      AttentionProblem rising = make_problem(query_len);  // each tile brings a new maximum
      rising.bias.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([n = 0]() mutable {
        return static_cast<float>(3 * n++);
      });
      check_attention(rising);
      AttentionProblem falling = make_problem(query_len);
      falling.bias.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([n = 0]() mutable {
        return static_cast<float>(-3 * n++);
      });
      check_attention(falling);
    }
  }

  TEST_CASE("scores of the most negative finite number are scores, not masks") {
    AttentionProblem problem = make_problem();
    problem.bias.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([] { return -3.4028234e38f; });
    problem.query.fill([] { return 0.0f; });
    check_attention(problem);  // all equal: the mean of the values
  }

  TEST_CASE("denormal inputs are numbers") {
    for (int64_t query_len : {1, 19}) {
      AttentionProblem values = make_problem(query_len);
      Random random(base_seed());
      values.value.fill([&] { return random.normal() * 1e-40f; });
      check_attention(values);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = values.make_result();
        REQUIRE_OK(values.run(context, result));
        int64_t zeros = 0;
        for (float x : result.out.dense()) zeros += x == 0 ? 1 : 0;
        CHECK(zeros * 10 < result.out.count());
      });
      AttentionProblem keys = make_problem(query_len);
      keys.key.fill([&] { return random.normal() * 1e-40f; });
      keys.query.fill([&] { return random.normal() * 1e30f; });
      keys.scale = 1e10f;
      check_attention(keys);
    }
  }

  TEST_CASE("large and small values keep their scale") {
    for (float factor : {1e-30f, 1e-10f, 1e10f, 1e30f}) {
      AttentionProblem problem = make_problem();
      Random random(base_seed());
      problem.value.fill([&] { return random.normal() * factor; });
      check_attention(problem);
    }
  }

  TEST_CASE("the floating-point environment of the caller is left alone") {
    AttentionProblem problem = make_problem();
    problem.value.fill([] { return 1e-40f; });
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      volatile float tiny = 1e-40f;
      CHECK(tiny * 0.5f != 0);
    });
  }
}
