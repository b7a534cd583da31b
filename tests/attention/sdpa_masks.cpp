// Every way to keep a key from being attended, alone and with its broadcasts, and what rows with no key give.
#include <doctest/doctest.h>

#include <cmath>

#include "support/attention_problem.hpp"

using namespace testing;

namespace {

constexpr AttentionSizes kSizes = {
    .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 21, .key_len = 45, .head_dim = 12, .value_dim = 10};

AttentionProblem make_problem(int64_t query_len = kSizes.query_len, int64_t key_len = kSizes.key_len) {
  Random random(base_seed());
  AttentionSizes sizes = kSizes;
  sizes.query_len = query_len;
  sizes.key_len = key_len;
  return make_attention(sizes, random);
}

const std::vector<int32_t> kPolicies = {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN};

}  // namespace

TEST_SUITE("sdpa masks") {
  TEST_CASE("valid_lens [B] and [B,Q], int32 and int64, from 0 to K") {
    for (bool wide : {false, true}) {
      for (int64_t query_len : {1, 2, 21}) {
        AttentionProblem problem = make_problem(query_len);
        for (int64_t first = 0; first <= kSizes.key_len; first += 5) {
          problem.set_valid_lens({first, kSizes.key_len - first}, wide);
          check_attention(problem);
        }
        std::vector<int64_t> lens;
        for (int64_t n = 0; n < 2 * query_len; ++n) lens.push_back(n * 7 % (kSizes.key_len + 1));
        problem.set_valid_lens(lens, wide);
        check_attention(problem);
      }
    }
  }

  TEST_CASE("valid_lens of any strides") {
    AttentionProblem problem = make_problem(7);
    problem.valid_lens32.emplace(Shape{2, 7}, Shape{1, 3}).fill([n = 0]() mutable { return 3 * n++; });
    check_attention(problem);
    problem.valid_lens32.emplace(Shape{2, 7}, Shape{0, 1}).fill([n = 0]() mutable { return n++ % 7 * 6; });
    check_attention(problem);
    problem.valid_lens32.emplace(Shape{2, 7}, Shape{1, 0}).fill([n = 0]() mutable { return 11 + n++ / 7 * 20; });
    check_attention(problem);
    problem.valid_lens32.emplace(Shape{2}, Shape{0}).fill([] { return 17; });
    check_attention(problem);
    problem.valid_lens32.emplace(Shape{2}, Shape{-4}).fill([n = 5]() mutable { return n += 8; });
    check_attention(problem);
  }

  TEST_CASE("mask and bias broadcast over B, H and Q, by size 1 and by stride 0") {
    for (int axes = 0; axes < 8; ++axes) {
      const Shape shape = {(axes & 1) != 0 ? 1 : kSizes.batch, (axes & 2) != 0 ? 1 : kSizes.heads,
                           (axes & 4) != 0 ? 1 : kSizes.query_len, kSizes.key_len};
      Shape strides = contiguous_strides(shape);
      for (int by_stride = 0; by_stride < 2; ++by_stride) {
        CAPTURE(axes);
        CAPTURE(by_stride);
        Random random(base_seed());
        Shape given = shape;
        if (by_stride != 0) {
          given = {kSizes.batch, kSizes.heads, kSizes.query_len, kSizes.key_len};
          for (size_t axis = 0; axis < 3; ++axis) strides[axis] = shape[axis] == 1 ? 0 : strides[axis];
        }
        AttentionProblem problem = make_problem();
        problem.mask.emplace(given, strides).fill([&] { return static_cast<uint8_t>(random.chance(0.6) ? 1 : 0); });
        check_attention(problem);
        problem.mask.reset();
        problem.bias.emplace(given, strides).fill_normal(random);
        check_attention(problem);
      }
    }
  }

  TEST_CASE("any non-zero byte of the mask is true") {
    AttentionProblem problem = make_problem();
    const uint8_t bytes[] = {0, 1, 2, 0x80, 0xFF, 0};
    problem.mask.emplace(Shape{1, 1, 1, kSizes.key_len}).fill([&, n = 0]() mutable { return bytes[n++ % 6]; });
    check_attention(problem);
  }

  TEST_CASE("masks that begin and end anywhere in a tile, with rows of their own") {
    for (int64_t query_len : {1, 3, 20}) {
      for (int64_t edge : {1, 5, 47, 48, 49, 95, 96, 97, 143, 144, 145, 383, 384, 385}) {
        AttentionProblem problem = make_problem(query_len, 400);
        problem.set_mask([edge](int64_t, int64_t, int64_t, int64_t j) { return j >= edge; });
        check_attention(problem);
        problem.set_mask(
            [edge](int64_t, int64_t h, int64_t i, int64_t j) { return j >= edge - i && j < 400 - 48 * h; });
        check_attention(problem);
      }
    }
  }

  TEST_CASE("query invariant: a row's mask gives the same bits alone and beside longer and shorter ones") {
    const int64_t query_len = 20;
    AttentionProblem all = make_problem(query_len, 400);
    all.flags = FOVEA_QUERY_INVARIANT;
    all.set_mask([](int64_t, int64_t h, int64_t i, int64_t j) { return j >= 23 * i && j < 400 - 17 * h; });
    AttentionProblem alone = make_problem(1, 400);
    alone.flags = FOVEA_QUERY_INVARIANT;
    alone.key.assign(all.key.dense());
    alone.value.assign(all.value.dense());
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult company = all.make_result(false);
      REQUIRE_OK(all.run(context, company));
      for (int64_t row = 0; row < query_len; ++row) {
        CAPTURE(row);
        alone.query.memory().thaw();
        for_each_index(alone.query.shape(),
                       [&](const Shape &at) { alone.query.at(at) = all.query(at[0], at[1], row, at[3]); });
        alone.set_mask([row](int64_t, int64_t h, int64_t, int64_t j) { return j >= 23 * row && j < 400 - 17 * h; });
        const AttentionResult single = alone.make_result(false);
        REQUIRE_OK(alone.run(context, single));
        int64_t different = 0;
        for_each_index(single.out.shape(), [&](const Shape &at) {
          different += single.out.at(at) != company.out(at[0], at[1], row, at[3]) ? 1 : 0;
        });
        CHECK(different == 0);
      }
    });
  }

  // Tiles of few rows put several keys side by side, as many as there is room for.
  TEST_CASE("few rows: a row gives the same bits whatever its neighbours attend") {
    Random random(base_seed());
    for (int64_t query_len = 2; query_len <= 8; ++query_len) {
      for (const int64_t begin : {0, 7, 50, 101, 390}) {
        CAPTURE(query_len);
        CAPTURE(begin);
        const int64_t row = random.integer(0, query_len - 1);
        AttentionProblem problem = make_problem(query_len, 420);
        const auto run_with = [&](const fovea_context *context, int64_t others_begin, int64_t others_end) {
          problem.set_mask([=](int64_t, int64_t, int64_t i, int64_t j) {
            return i == row ? j >= begin && j % 5 != 0 : j >= others_begin && j < others_end;
          });
          const AttentionResult result = problem.make_result(false);
          REQUIRE_OK(problem.run(context, result));
          std::vector<float> own;
          for_each_index(result.out.shape(), [&](const Shape &at) {
            if (at[2] == row) own.push_back(result.out.at(at));
          });
          return own;
        };
        for_each_isa([&](const fovea_context *context) {
          const std::vector<float> alike = run_with(context, 0, 420);
          CHECK(same_bits(alike, run_with(context, 0, 0)));
          CHECK(same_bits(alike, run_with(context, 97, 101)));
          CHECK(same_bits(alike, run_with(context, 300, 420)));
        });
      }
    }
  }

  TEST_CASE("masks that leave one key, one tile, all but one tile") {
    for (int64_t kept : {0, 1, 15, 16, 31, 32, 63, 64, 100, 127, 128, 199}) {
      AttentionProblem problem = make_problem(20, 200);
      problem.set_mask([kept](int64_t, int64_t, int64_t, int64_t j) { return j == kept; });
      check_attention(problem);
      problem.set_mask([kept](int64_t, int64_t, int64_t, int64_t j) { return j / 16 == kept / 16; });
      check_attention(problem);
      problem.set_mask([kept](int64_t, int64_t, int64_t, int64_t j) { return j / 64 != kept / 64; });
      check_attention(problem);
    }
  }

  TEST_CASE("causal: bottom-right, top-left, offset; fewer keys than queries") {
    for (int64_t query_len : {1, 5, 21, 70}) {
      for (int64_t key_len : {1, 5, 45, 70, 130}) {
        AttentionProblem problem = make_problem(query_len, key_len);
        problem.flags = FOVEA_CAUSAL;
        check_attention(problem);
        problem.flags = FOVEA_CAUSAL | FOVEA_TOP_LEFT;
        check_attention(problem);
        problem.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
        for (int64_t offset : {-30, -1, 0, 3, 40, 500}) {
          problem.query_offset = offset;
          check_attention(problem);
        }
      }
    }
  }

  TEST_CASE("sliding windows, left, right and both, with and without causal") {
    for (int64_t key_len : {45, 150}) {
      AttentionProblem problem = make_problem(21, key_len);
      for (int sides : {+FOVEA_WINDOW_LEFT, +FOVEA_WINDOW_RIGHT, FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT}) {
        for (int more : {0, +FOVEA_CAUSAL, +FOVEA_TOP_LEFT, +FOVEA_QUERY_OFFSET}) {
          for (int64_t reach : {0, 1, 4, 16, 63, 1000}) {
            problem.flags = static_cast<uint32_t>(sides | more);
            problem.window_left = reach;
            problem.window_right = reach / 2;
            problem.query_offset = 9;
            check_attention(problem);
          }
        }
      }
    }
  }

  TEST_CASE("window reaches and offsets near the limits of int64") {
    AttentionProblem problem = make_problem();
    problem.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT;
    problem.window_left = INT64_MAX;
    problem.window_right = INT64_MAX;
    check_attention(problem);
    problem.flags = FOVEA_WINDOW_LEFT | FOVEA_WINDOW_RIGHT | FOVEA_CAUSAL;
    check_attention(problem);
  }

  TEST_CASE("leave-one-out") {
    for (int64_t length : {1, 2, 17, 65, 130}) {
      AttentionProblem problem = make_problem(length, length);
      problem.flags = FOVEA_LEAVE_ONE_OUT;
      check_attention(problem);
      problem.flags = FOVEA_LEAVE_ONE_OUT | FOVEA_CAUSAL;
      check_attention(problem);
    }
    AttentionProblem problem = make_problem(21, 45);
    problem.flags = FOVEA_LEAVE_ONE_OUT;  // query i and key i, although the positions are bottom-right
    check_attention(problem);
    for (int64_t offset : {-7, 0, 12, 40}) {
      problem.flags = FOVEA_LEAVE_ONE_OUT | FOVEA_QUERY_OFFSET;
      problem.query_offset = offset;
      check_attention(problem);
    }
  }

  TEST_CASE("ALiBi slopes, sinks, soft-cap and scale") {
    for (int64_t query_len : {1, 21}) {
      AttentionProblem problem = make_problem(query_len);
      problem.alibi_slopes.emplace(Shape{4}).assign({0.5f, 0.25f, 0.125f, 0.0f});
      check_attention(problem);
      problem.flags = FOVEA_CAUSAL;
      check_attention(problem);
      problem.flags = FOVEA_QUERY_OFFSET;
      problem.query_offset = 11;
      check_attention(problem);
      problem.alibi_slopes.reset();
      problem.flags = 0;
      problem.sinks.emplace(Shape{4}).assign({0.0f, 3.0f, -4.0f, 20.0f});
      check_attention(problem);
      problem.sinks.reset();
      for (float softcap : {0.5f, 2.0f, 30.0f}) {
        problem.softcap = softcap;
        check_attention(problem);
      }
      problem.softcap = 0;
      for (float scale : {1.0f, 0.01f, -0.5f, 2.5f}) {
        problem.scale = scale;
        check_attention(problem);
      }
      for (float scale : {0.0f, -0.0f, 0.25f}) {
        problem.flags = FOVEA_SCALE_GIVEN;
        problem.scale = scale;
        check_attention(problem);
      }
    }
  }

  TEST_CASE("rows with nothing to attend, in every policy and by every mask") {
    for (int32_t policy : kPolicies) {
      CAPTURE(policy);
      for (int64_t query_len : {1, 3, 21}) {
        AttentionProblem problem = make_problem(query_len);
        problem.empty_rows = policy;
        problem.set_valid_lens({0, 30});
        check_attention(problem);
        problem.valid_lens32.reset();
        problem.set_mask([](int64_t b, int64_t h, int64_t i, int64_t j) { return (b + h + i) % 2 == 0 && j % 3 != 0; });
        check_attention(problem);
        problem.mask.reset();
        problem.bias.emplace(problem.score_shape()).fill([n = 0]() mutable {
          return n++ / kSizes.key_len % 3 == 0 ? -kInfinity : 0.25f;
        });
        check_attention(problem);
        problem.bias.reset();
        problem.flags = FOVEA_CAUSAL | FOVEA_QUERY_OFFSET;
        problem.query_offset = -2;
        check_attention(problem);
        problem.flags = FOVEA_WINDOW_LEFT | FOVEA_QUERY_OFFSET;
        problem.query_offset = 43;
        check_attention(problem);
        problem.flags |= FOVEA_AVERAGE_WEIGHTS;
        check_attention(problem);
      }
    }
  }

  TEST_CASE("empty rows, to the letter") {
    AttentionProblem problem = make_problem(2, 8);
    problem.set_valid_lens({0, 8});
    for_each_isa([&](const fovea_context *context) {
      problem.empty_rows = FOVEA_EMPTY_ROWS_ZERO;
      AttentionResult result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      CHECK(result.out(0, 0, 0, 0) == 0);
      CHECK((*result.weights)(0, 0, 0, 0) == 0);
      CHECK((*result.log_sum_exp)(0, 0, 0) == -kInfinity);

      problem.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
      result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      CHECK((*result.weights)(0, 3, 1, 7) == 0.125f);
      CHECK((*result.log_sum_exp)(0, 0, 0) == doctest::Approx(-1e6 + std::log(8.0)).epsilon(1e-7));

      problem.empty_rows = FOVEA_EMPTY_ROWS_NAN;
      result = problem.make_result();
      REQUIRE_OK(problem.run(context, result));
      CHECK(std::isnan(result.out(0, 0, 0, 0)));
      CHECK(std::isnan((*result.weights)(0, 0, 0, 0)));
      CHECK((*result.log_sum_exp)(0, 0, 0) == -kInfinity);
    });
  }

  // The one exception to "a key that does not pass changes nothing", and only of values.
  TEST_CASE("a row with nothing to attend is the mean of all values under UNIFORM, masked ones and their NaN too") {
    for (bool by_length : {false, true}) {
      AttentionProblem problem = make_problem(2, 8);
      if (by_length) {
        problem.set_valid_lens({0, 3});
      } else {
        problem.set_mask([](int64_t b, int64_t, int64_t, int64_t j) { return b == 1 && j < 3; });
      }
      for_each_index(problem.key.shape(), [&](const Shape &at) { problem.key.at(at) = at[2] < 3 ? 1.0f : kNan; });
      for_each_index(problem.value.shape(), [&](const Shape &at) { problem.value.at(at) = static_cast<float>(at[2]); });
      problem.value(0, 0, 5, 4) = kNan;
      for_each_isa([&](const fovea_context *context) {
        for (bool weights : {false, true}) {
          problem.empty_rows = FOVEA_EMPTY_ROWS_UNIFORM;
          AttentionResult result = problem.make_result(weights);
          REQUIRE_OK(problem.run(context, result));
          CHECK(result.out(0, 0, 1, 3) == 3.5f);                // the mean of 0 to 7
          CHECK(std::isnan(result.out(0, 0, 1, 4)));            // of which one is NaN
          CHECK(result.out(0, 2, 1, 4) == 3.5f);                // in that head
          CHECK(result.out(1, 2, 1, 4) == doctest::Approx(1));  // rows with keys to attend: of these three only
          problem.empty_rows = FOVEA_EMPTY_ROWS_ZERO;
          result = problem.make_result(weights);
          REQUIRE_OK(problem.run(context, result));
          CHECK(result.out(0, 0, 1, 4) == 0);
        }
      });
    }
  }

  TEST_CASE("a sink keeps a row from being empty, in every policy") {
    for (int32_t policy : kPolicies) {
      AttentionProblem problem = make_problem();
      problem.empty_rows = policy;
      problem.sinks.emplace(Shape{4}).assign({0.0f, 3.0f, -4.0f, 8.0f});
      problem.set_valid_lens({0, 30});
      check_attention(problem);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result();
        REQUIRE_OK(problem.run(context, result));
        CHECK(result.out(0, 1, 0, 0) == 0);
        CHECK((*result.log_sum_exp)(0, 1, 0) == 3);
        CHECK((*result.weights)(0, 1, 0, 0) == 0);
      });
    }
  }

  TEST_CASE("a sink of -infinity counts for nothing, but is a sink") {
    for (int32_t policy : kPolicies) {
      CAPTURE(policy);
      AttentionProblem problem = make_problem();
      problem.empty_rows = policy;
      problem.sinks.emplace(Shape{4}).assign({-kInfinity, 1.0f, -kInfinity, -kInfinity});
      check_attention(problem);
      problem.set_valid_lens({0, 30});
      check_attention(problem);
    }
  }

  TEST_CASE("a sink of +infinity takes all weight, however keys are split") {
    const uint32_t flags[] = {0, FOVEA_QUERY_INVARIANT};  // which splits no keys
    for (const uint32_t flag : flags) {
      for (const int64_t keys : {1, 30, 900, 2500}) {
        for (const int64_t queries : {1, 3, 20}) {
          CAPTURE(flag);
          CAPTURE(keys);
          CAPTURE(queries);
          Random random(base_seed());
          AttentionProblem problem = make_attention({1, 2, 1, queries, keys, 8, 5}, random);
          problem.flags = flag;
          problem.sinks.emplace(Shape{2}).assign({kInfinity, 1.0f});
          for_each_isa([&](const fovea_context *context) {
            const AttentionResult result = problem.make_result(false);
            REQUIRE_OK(problem.run(context, result));
            for (int64_t i = 0; i < queries; ++i) {
              for (int64_t d = 0; d < 5; ++d) {
                CHECK(result.out(0, 0, i, d) == 0);
                CHECK(std::isfinite(result.out(0, 1, i, d)));
              }
              CHECK((*result.log_sum_exp)(0, 0, i) == kInfinity);
              CHECK(std::isfinite((*result.log_sum_exp)(0, 1, i)));
            }
          });
        }
      }
    }
  }

  TEST_CASE("a score of NaN or +infinity beside a sink of +infinity gives NaN, however keys are split") {
    for (const float number : {kNan, kInfinity}) {
      for (const int64_t keys : {30, 2500}) {
        CAPTURE(number);
        CAPTURE(keys);
        Random random(base_seed());
        AttentionProblem problem = make_attention({1, 1, 1, 2, keys, 8, 5}, random);
        problem.query.fill([] { return 1.0f; });
        problem.key(0, 0, keys - 1, 3) = number;
        problem.sinks.emplace(Shape{1}).assign({kInfinity});
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          REQUIRE_OK(problem.run(context, result));
          for (int64_t d = 0; d < 5; ++d) CHECK(std::isnan(result.out(0, 0, 1, d)));
        });
      }
    }
  }
}
