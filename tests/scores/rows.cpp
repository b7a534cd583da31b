// What the header promises of a row, with every score function: its bits beside other rows, what it gives when it is
// empty, NaN in values, weights that are exactly 0, lengths that come with each run of a plan, padded decoders.
#include <doctest/doctest.h>

#include <cmath>

#include "support/attention_plan.hpp"
#include "support/attention_problem.hpp"
#include "support/batch_entry.hpp"

using namespace testing;

namespace {

constexpr int32_t kPolicies[] = {FOVEA_EMPTY_ROWS_ZERO, FOVEA_EMPTY_ROWS_UNIFORM, FOVEA_EMPTY_ROWS_NAN};

AttentionProblem make_problem(int32_t kind, AttentionSizes sizes) {
  Random random(base_seed());
  if (takes_two_dims(kind)) sizes.key_dim = sizes.head_dim - 2;
  return make_scored(kind, sizes, 18, random);
}

AttentionResult run(const AttentionProblem &problem, const fovea_context *context, bool weights = false) {
  AttentionResult result = problem.make_result(weights);
  REQUIRE_OK(problem.run(context, result));
  return result;
}

// All keys are the same, so that the bias alone tells them apart.
AttentionProblem make_biased(int32_t kind, int64_t query_len, const std::vector<float> &bias) {
  const auto key_len = static_cast<int64_t>(bias.size());
  AttentionProblem problem =
      make_problem(kind, {.query_len = query_len, .key_len = key_len, .head_dim = 6, .value_dim = 3});
  problem.key.fill([] { return 0.5f; });
  problem.bias.emplace(Shape{1, 1, 1, key_len}).assign(bias);
  return problem;
}

}  // namespace

TEST_SUITE("scores rows") {
  TEST_CASE("query invariant: a row has the same bits alone and beside rows with other masks") {
    constexpr int64_t query_len = 12, key_len = 200;
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      const AttentionSizes sizes = {
          .heads = 2, .kv_heads = 1, .query_len = query_len, .key_len = key_len, .head_dim = 20, .value_dim = 6};
      AttentionProblem all = make_problem(kind, sizes);
      all.flags = FOVEA_QUERY_INVARIANT;
      all.set_mask([](int64_t, int64_t h, int64_t i, int64_t j) { return j >= 13 * i && j < key_len - 17 * h; });
      AttentionSizes one = sizes;
      one.query_len = 1;
      AttentionProblem alone = make_problem(kind, one);
      alone.flags = FOVEA_QUERY_INVARIANT;
      alone.key.assign(all.key.dense());
      alone.value.assign(all.value.dense());
      alone.score = make_problem(kind, sizes).score;
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult company = run(all, context);
        for (int64_t row = 0; row < query_len; ++row) {
          CAPTURE(row);
          alone.query.memory().thaw();
          for_each_index(alone.query.shape(),
                         [&](const Shape &at) { alone.query.at(at) = all.query(at[0], at[1], row, at[3]); });
          alone.set_mask([&](int64_t, int64_t h, int64_t, int64_t j) { return j >= 13 * row && j < key_len - 17 * h; });
          const AttentionResult single = run(alone, context);
          int64_t different = 0;
          for_each_index(single.out.shape(), [&](const Shape &at) {
            different += single.out.at(at) != company.out(at[0], at[1], row, at[3]) ? 1 : 0;
          });
          CHECK(different == 0);
        }
      });
    }
  }

  TEST_CASE("every score -infinity: an empty row, in every policy") {
    for (int32_t kind : kScoreKinds) {
      for (int32_t policy : kPolicies) {
        for (int64_t query_len : {1, 20}) {
          CAPTURE(kind);
          AttentionProblem problem = make_biased(kind, query_len, std::vector<float>(40, -kInfinity));
          problem.empty_rows = policy;
          check_attention(problem);
          for_each_isa([&](const fovea_context *context) {
            const AttentionResult result = run(problem, context, true);
            const float weight = (*result.weights)(0, 0, 0, 39), sum = (*result.log_sum_exp)(0, 0, 0);
            if (policy == FOVEA_EMPTY_ROWS_ZERO) CHECK((result.out(0, 0, 0, 0) == 0 && weight == 0));
            if (policy == FOVEA_EMPTY_ROWS_UNIFORM) CHECK((weight == 1.0f / 40 && std::abs(sum + 1e6f) < 5));
            if (policy == FOVEA_EMPTY_ROWS_NAN) CHECK((std::isnan(result.out(0, 0, 0, 0)) && std::isnan(weight)));
            if (policy != FOVEA_EMPTY_ROWS_UNIFORM) CHECK(sum == -kInfinity);
          });
        }
      }
    }
  }

  TEST_CASE("a sink keeps a row from being empty, in every policy: output 0, log-sum-exp the sink") {
    for (int32_t kind : kScoreKinds) {
      for (int32_t policy : kPolicies) {
        for (int64_t query_len : {1, 20}) {
          CAPTURE(kind);
          AttentionProblem problem =
              make_problem(kind, {.batch = 2, .heads = 2, .query_len = query_len, .key_len = 40, .head_dim = 8});
          problem.empty_rows = policy;
          problem.sinks.emplace(Shape{2}).assign({3.0f, -kInfinity});  // that counts for nothing, but is one
          problem.set_valid_lens({0, 30});
          check_attention(problem);
          problem.sinks.emplace(Shape{2}).assign({3.0f, -4.0f});
          check_attention(problem);
          for_each_isa([&](const fovea_context *context) {
            const AttentionResult result = run(problem, context, true);
            CHECK(result.out(0, 1, 0, 0) == 0);
            CHECK((*result.log_sum_exp)(0, 1, query_len - 1) == doctest::Approx(-4).epsilon(1e-6));
            CHECK((*result.weights)(0, 1, 0, 0) == 0);
          });
        }
      }
    }
  }

  TEST_CASE("NaN in a value that is attended reaches the output, in its feature") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 19}) {
        for (int64_t j : {0, 16, 69}) {
          CAPTURE(kind);
          AttentionProblem problem =
              make_problem(kind, {.query_len = query_len, .key_len = 70, .head_dim = 9, .value_dim = 5});
          problem.value(0, 0, j, 3) = kNan;
          for_each_isa([&](const fovea_context *context) {
            for (bool weights : {false, true}) {
              const AttentionResult result = run(problem, context, weights);
              for_each_index(result.out.shape(),
                             [&](const Shape &at) { CHECK(std::isnan(result.out.at(at)) == (at[3] == 3)); });
            }
          });
        }
      }
    }
  }

  // In one tile and in others, before the largest score and behind it. Fewer than 384 keys are not split, nor are any
  // where queries are to be invariant.
  TEST_CASE("a score more than 87 below the largest of its row has a weight of exactly 0") {
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 20}) {
        for (int64_t key_len : {7, 300, 2500}) {
          for (int64_t largest : {int64_t{0}, key_len / 2, key_len - 1}) {
            CAPTURE(kind);
            CAPTURE(query_len);
            CAPTURE(key_len);
            CAPTURE(largest);
            std::vector<float> bias(static_cast<size_t>(key_len), -87.001f);
            bias[static_cast<size_t>(largest)] = 0;
            AttentionProblem problem = make_biased(kind, query_len, bias);
            problem.flags = key_len < 384 ? 0 : FOVEA_QUERY_INVARIANT;
            for_each_index(problem.value.shape(),
                           [&](const Shape &at) { problem.value.at(at) = at[2] == largest ? 1.0f : 1e35f; });
            for_each_isa([&](const fovea_context *context) {
              for (bool weights : {false, true}) {
                const AttentionResult result = run(problem, context, weights);
                for (float out : result.out.dense()) CHECK(out == 1);
                int64_t wrong = 0;
                for (int64_t j = 0; weights && j < key_len; ++j) {
                  wrong += (*result.weights)(0, 0, 0, j) != (j == largest ? 1 : 0) ? 1 : 0;
                }
                CHECK(wrong == 0);
              }
            });
          }
        }
      }
    }
  }

  TEST_CASE("offsets and windows without their flags change no bit") {
    for (int32_t kind : kScoreKinds) {
      AttentionProblem problem = make_problem(kind, {.query_len = 9, .key_len = 30, .head_dim = 6, .value_dim = 3});
      problem.flags = FOVEA_CAUSAL;
      for_each_isa([&](const fovea_context *context) {
        problem.query_offset = problem.window_left = problem.window_right = 0;
        const AttentionResult expected = run(problem, context, true);
        problem.query_offset = -3;
        problem.window_left = 2;
        problem.window_right = 1;
        CHECK(same_bits(run(problem, context, true), expected));
      });
    }
  }

  // As a batch of decoders does whose sequences are padded to one length: fovea.h, "Positions".
  TEST_CASE("padded decoders: lengths by query are the causal mask of each sequence's own keys") {
    constexpr int64_t query_len = 3, key_len = 40, lengths[] = {3, 17, 40};
    for (int32_t kind : kScoreKinds) {
      CAPTURE(kind);
      AttentionProblem padded =
          make_problem(kind, {.batch = 3, .query_len = query_len, .key_len = key_len, .head_dim = 8, .value_dim = 5});
      std::vector<int64_t> lens;
      for (int64_t length : lengths) {
        for (int64_t i = 0; i < query_len; ++i) lens.push_back(length - query_len + i + 1);
      }
      padded.set_valid_lens(lens);
      check_attention(padded);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult together = run(padded, context), own = padded.make_result(false);
        for (int64_t b = 0; b < 3; ++b) {
          AttentionArguments call(padded, own);
          for (fovea_tensor *tensor : {&call.query, &call.key, &call.value, &call.out, &call.log_sum_exp}) {
            tensor->data = static_cast<float *>(tensor->data) + b * tensor->strides[0];
            tensor->shape[0] = 1;
          }
          call.key.shape[2] = call.value.shape[2] = lengths[b];
          call.options.valid_lens = nullptr;
          call.options.flags = FOVEA_CAUSAL;
          REQUIRE_OK(call.run(context));
        }
        for_each_index(own.out.shape(), [&](const Shape &at) {
          CHECK(own.out.at(at) == doctest::Approx(together.out.at(at)).epsilon(1e-5));
        });
      });
    }
  }

  TEST_CASE("each run of a plan brings its own lengths; keys past them are not read") {
    constexpr int64_t key_len = 200;
    for (int32_t kind : kScoreKinds) {
      for (int64_t query_len : {1, 9}) {
        CAPTURE(kind);
        AttentionProblem problem =
            make_problem(kind, {.heads = 2, .kv_heads = 1, .query_len = query_len, .key_len = key_len, .head_dim = 8});
        for_each_isa([&](const fovea_context *context) {
          problem.set_valid_lens({key_len});
          const AttentionPlan plan(context, problem, problem.make_result(false));
          for (int64_t length : {0, 1, 16, 100, 200}) {
            CAPTURE(length);
            problem.set_valid_lens({length});
            const AttentionResult planned = problem.make_result(false);
            fovea_attention_buffers buffers = buffers_of(AttentionArguments(problem, planned));
            // Up to the length; behind it is a page that may not be touched.
            const std::vector<float> keys = problem.key.dense(), values = problem.value.dense();
            Tensor<float> key({length, problem.sizes.key_size()}), value({length, problem.sizes.value_dim});
            key.assign({keys.begin(), keys.begin() + key.count()});
            value.assign({values.begin(), values.begin() + value.count()});
            buffers.key = key.data();
            buffers.value = value.data();
            REQUIRE_OK(plan.run(buffers));
            CHECK(same_bits(planned, run(problem, context)));
          }
          problem.set_valid_lens({key_len + 1});
          const AttentionResult refused = problem.make_result(false);
          CHECK(plan.run(problem, refused) == FOVEA_BAD_VALUE);
          CHECK(refused.out.untouched());
        });
      }
    }
  }
}
