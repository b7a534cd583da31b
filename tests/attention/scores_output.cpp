// options.scores: raw, after the soft-cap, or the logits, against the formula in float64 on every way through the
// library.
#include <doctest/doctest.h>

#include "errors.hpp"
#include "support/attention_plan.hpp"
#include "support/narrow.hpp"
#include "support/random_attention.hpp"

using namespace testing;

namespace {

const int32_t kKinds[] = {FOVEA_SCORES_RAW, FOVEA_SCORES_CAPPED, FOVEA_SCORES_LOGITS};

struct Expected {
  std::vector<double> values, allowed;
};

double scale_of(const reference::AttentionInputs &in) {
  if (in.scale != 0 || in.scale_given) return in.scale;
  return in.score.kind == reference::ScoreKind::kDot ? 1 / std::sqrt(static_cast<double>(in.query_dim)) : 1;
}

double position_of(const reference::AttentionInputs &in, int64_t b, int64_t i) {
  if (in.query_offsets) return static_cast<double>((*in.query_offsets)[static_cast<size_t>(b)] + i);
  if (in.query_offset) return static_cast<double>(*in.query_offset + i);
  return static_cast<double>(i + (in.top_left ? 0 : std::max<int64_t>(0, in.key_len - in.query_len)));
}

Expected expected_scores(const AttentionProblem &problem, int32_t kind) {
  const reference::AttentionInputs in = problem.reference_inputs();
  const auto raw = reference::raw_scores<double>(in);
  const auto rough = reference::raw_scores<float>(in);
  Expected expected;
  size_t n = 0;
  for (int64_t b = 0; b < in.batch; ++b) {
    for (int64_t h = 0; h < in.heads; ++h) {
      for (int64_t i = 0; i < in.query_len; ++i) {
        const std::vector<bool> attended = reference::attended_keys(in, b, h, i);
        for (int64_t j = 0; j < in.key_len; ++j, ++n) {
          double score = scale_of(in) * raw.values[n];
          const double rounding = 0x1p-20 * (1 + std::abs(score)) + raw.allowances[n] * std::abs(scale_of(in)) +
                                  4 * std::abs(scale_of(in) * (rough.values[n] - raw.values[n]));
          if (kind != FOVEA_SCORES_RAW && in.softcap != 0) score = in.softcap * std::tanh(score / in.softcap);
          if (kind == FOVEA_SCORES_LOGITS) {
            if (in.alibi_slopes) {
              score -=
                  (*in.alibi_slopes)[static_cast<size_t>(h)] * std::abs(position_of(in, b, i) - static_cast<double>(j));
            }
            if (in.bias) score += (*in.bias)[n];
            if (!attended[static_cast<size_t>(j)]) score = -kInfinity;
          }
          expected.values.push_back(score);
          expected.allowed.push_back(rounding + 0x1p-20 * (std::isfinite(score) ? std::abs(score) : 0));
        }
      }
    }
  }
  return expected;
}

void check_values(const Tensor<float> &scores, const Expected &expected) {
  const std::vector<float> values = scores.dense();
  int64_t wrong = 0;
  for (size_t n = 0; n < values.size(); ++n) {
    const double truth = expected.values[n];
    wrong += std::isinf(truth) ? values[n] != truth : !(std::abs(values[n] - truth) <= expected.allowed[n]);
  }
  CHECK_EQ(wrong, 0);
  CHECK(scores.gaps_untouched());
}

// Scores in memory with gaps after each row.
Tensor<float> make_scores(const AttentionProblem &problem) {
  return problem.make_tensor(problem.score_shape(), Layout::kPadded);
}

void check_scores(const AttentionProblem &problem, bool want_weights) {
  for (const int32_t kind : kKinds) {
    CAPTURE(kind);
    const Expected expected = expected_scores(problem, kind);
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result(want_weights);
      const Tensor<float> scores = make_scores(problem);
      const fovea_tensor view = scores.view();
      AttentionArguments call(problem, result);
      call.options.scores = &view;
      call.options.scores_kind = kind;
      REQUIRE_OK(call.run(context));
      check_values(scores, expected);
      check_result(problem, result);
    });
  }
}

}  // namespace

TEST_SUITE("scores output") {
  TEST_CASE("by hand: scale 1/2, a soft-cap, a bias and a causal mask") {
    const std::vector<float> query = {2, 4}, key = {1, 3}, value = {1, 1}, bias = {0.5f, 0.25f};
    const int64_t shape[] = {2, 1}, pairs[] = {2, 2}, one[] = {1, 2};
    std::vector<float> out(2), got(4);
    const auto tensor = [](const std::vector<float> &data, const int64_t *sizes) {
      return fovea_tensor_contiguous(data.data(), FOVEA_F32, 2, sizes);
    };
    const fovea_tensor q = tensor(query, shape), k = tensor(key, shape), v = tensor(value, shape),
                       o = tensor(out, shape), scores = tensor(got, pairs), added = tensor(bias, one);
    fovea_attention_options options{};
    options.struct_size = sizeof options;
    options.scale = 0.5f;
    options.bias = &added;
    options.flags = FOVEA_CAUSAL;
    options.scores = &scores;
    for_each_isa([&](const fovea_context *context) {
      options.scores_kind = FOVEA_SCORES_RAW;
      REQUIRE_OK(fovea_sdpa(context, &q, &k, &v, &o, &options));
      CHECK(got == std::vector<float>{1, 3, 2, 6});
      options.scores_kind = FOVEA_SCORES_LOGITS;
      REQUIRE_OK(fovea_sdpa(context, &q, &k, &v, &o, &options));
      CHECK(got == std::vector<float>{1.5f, -kInfinity, 2.5f, 6.25f});
      options.scores_kind = FOVEA_SCORES_CAPPED;
      options.softcap = 2;
      REQUIRE_OK(fovea_sdpa(context, &q, &k, &v, &o, &options));
      const float truth[] = {0.9242343f, 1.8102966f, 1.5231884f, 1.9901096f};
      for (size_t n = 0; n < 4; ++n) CHECK(std::abs(got[n] - truth[n]) < 1e-6f);
      options.softcap = 0;
    });
  }

  TEST_CASE("against the formula: any sizes, options and score functions, with and without weights") {
    for (int64_t n = 0; n < case_count(150); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const AttentionProblem problem = random_problem(random, 130, 40, random.pick({Scores::kSdpa, Scores::kAny}));
      CAPTURE(problem.describe());
      check_scores(problem, random.chance(0.3));
    }
  }

  TEST_CASE("16 bits: the float32 scores, rounded once") {
    Random random(base_seed());
    const AttentionProblem problem = make_attention(
        {.heads = 2, .kv_heads = 1, .query_len = 9, .key_len = 130, .head_dim = 24, .value_dim = 5}, random);
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result(false);
      const Tensor<float> truth = make_scores(problem);
      AttentionArguments call(problem, result);
      fovea_tensor view = truth.view();
      call.options.scores = &view;
      REQUIRE_OK(call.run(context));
      for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
        const NarrowTensor narrow(make_scores(problem), dtype);
        view = narrow.view();
        REQUIRE_OK(call.run(context));
        int64_t wrong = 0;
        for_each_index(truth.shape(),
                       [&](const Shape &index) { wrong += narrow.at(index) != narrowed(truth.at(index), dtype); });
        CHECK_EQ(wrong, 0);
      }
    });
  }

  TEST_CASE("a plan writes what one call writes; threads change no bit") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 70, .key_len = 300, .head_dim = 16, .value_dim = 8},
        random);
    problem.flags = FOVEA_CAUSAL;
    const AttentionResult result = problem.make_result(false), planned_result = problem.make_result(false);
    const Tensor<float> scores = make_scores(problem), planned = make_scores(problem);
    fovea_tensor view = scores.view();
    AttentionArguments call(problem, result);
    call.options.scores = &view;
    call.options.scores_kind = FOVEA_SCORES_LOGITS;
    REQUIRE_OK(call.run(shared_context("base", 1)));
    AttentionArguments again(problem, planned_result);
    again.options.scores = &view;
    again.options.scores_kind = FOVEA_SCORES_LOGITS;
    fovea_plan *plan = nullptr;
    REQUIRE_OK(again.plan(shared_context("base", 3), &plan));
    std::vector<unsigned char> workspace(fovea_plan_workspace_size(plan));
    fovea_attention_buffers buffers = buffers_of(again);
    buffers.scores = planned.data();
    REQUIRE_OK(fovea_attention_run(plan, &buffers, workspace.data(), workspace.size()));
    fovea_plan_destroy(plan);
    CHECK(same_bits(scores, planned));
    CHECK(same_bits(result.out, planned_result.out));
  }

  TEST_CASE("bad arguments") {
    Random random(base_seed());
    const AttentionProblem problem = make_attention({.heads = 2, .kv_heads = 2, .query_len = 3, .key_len = 5}, random);
    const AttentionResult result = problem.make_result(false);
    const Tensor<float> scores({1, 2, 3, 5}), short_ones({1, 2, 3, 4});
    const auto refused = [&](fovea_tensor view, int32_t kind, fovea_status expected, const std::string &words) {
      AttentionArguments call(problem, result);
      call.options.scores = &view;
      call.options.scores_kind = kind;
      check_refusal(call.run(nullptr), expected, {words});
      CHECK(result.out.untouched());
    };
    refused(scores.view(), 3, FOVEA_BAD_VALUE, "options.scores_kind is 3, expected 0 to 2");
    refused(scores.view(), -1, FOVEA_BAD_VALUE, "options.scores_kind is -1");
    refused(short_ones.view(), 0, FOVEA_BAD_SHAPE, "scores has 4 keys, expected 5 (as key)");
    fovea_tensor overlapping = scores.view();
    overlapping.data = result.out.data();
    refused(overlapping, 0, FOVEA_OVERLAP, "scores");
  }
}
