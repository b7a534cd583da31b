// FOVEA_PRECISION_*: what may be rounded to bfloat16 where the processor multiplies that more quickly. The result is
// that of tensors that were rounded before, bit by bit; everything else stays float32.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "errors.hpp"
#include "support/narrow.hpp"
#include "support/random_attention.hpp"

using namespace testing;

namespace {

bool takes_bfloat16(const AttentionArguments &call, const fovea_context *context) {
  fovea_plan *plan = nullptr;
  REQUIRE_OK(call.plan(context, &plan));
  char text[512];
  fovea_plan_describe(plan, text, sizeof text);
  fovea_plan_destroy(plan);
  return std::strstr(text, "kernels=avx512bf16") != nullptr || std::strstr(text, "kernels=amxbf16") != nullptr;
}

// NaNs are equal.
bool same_floats(const Tensor<float> &a, const Tensor<float> &b) {
  bool same = true;
  for_each_index(a.shape(), [&](const Shape &index) {
    const float x = a.at(index), y = b.at(index);
    same = same && ((std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0);
  });
  return same;
}

bool same_outputs(const AttentionResult &a, const AttentionResult &b) {
  return same_floats(a.out, b.out) && (!a.log_sum_exp || same_floats(*a.log_sum_exp, *b.log_sum_exp)) &&
         (!a.weights || same_floats(*a.weights, *b.weights));
}

AttentionResult run_with(const AttentionProblem &problem, const fovea_context *context, int32_t precision,
                         bool want_weights) {
  AttentionResult result = problem.make_result(want_weights);
  AttentionArguments call(problem, result);
  call.options.precision = precision;
  REQUIRE_OK(call.run(context));
  return result;
}

// Medium precision against tensors of bfloat16, where both take the same kernels; against float32 where it takes none.
// Returns whether it was the former.
bool check_medium(const AttentionProblem &problem, const fovea_context *context, bool want_weights) {
  CAPTURE(problem.describe());
  const AttentionResult medium = problem.make_result(want_weights), rounded = problem.make_result(want_weights);
  AttentionArguments call(problem, medium), narrow_call(problem, rounded);
  call.options.precision = FOVEA_PRECISION_MEDIUM;
  const bool pairs = takes_bfloat16(call, context);
  REQUIRE_OK(call.run(context));
  if (!pairs) {
    CHECK(same_outputs(medium, run_with(problem, context, FOVEA_PRECISION_HIGHEST, want_weights)));
    return false;
  }
  const NarrowTensor query(problem.query, FOVEA_BF16), key(problem.key, FOVEA_BF16), value(problem.value, FOVEA_BF16);
  narrow_call.query = query.view();
  narrow_call.key = key.view();
  narrow_call.value = value.view();
  REQUIRE_OK(narrow_call.run(context));
  CHECK(takes_bfloat16(narrow_call, context));
  CHECK(same_outputs(medium, rounded));
  return true;
}

}  // namespace

TEST_SUITE("precision") {
  TEST_CASE("medium is what tensors of bfloat16 give, or else float32") {
    for (int64_t n = 0; n < case_count(250); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      const AttentionProblem problem =
          random_problem(random, random.pick({40, 220}), 70, random.pick({Scores::kSdpa, Scores::kAny}));
      const bool want_weights = random.chance(0.4);
      for_each_isa([&](const fovea_context *context) { check_medium(problem, context, want_weights); });
    }
  }

  TEST_CASE("medium takes products of bfloat16 where the processor has them and bfloat16 tensors take them") {
    Random random(base_seed());
    AttentionProblem problem = make_attention(
        {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 70, .key_len = 333, .head_dim = 48, .value_dim = 40},
        random);
    problem.set_valid_lens({333, 17});
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result(false);
      AttentionArguments narrow_call(problem, result);
      const NarrowTensor query(problem.query, FOVEA_BF16), key(problem.key, FOVEA_BF16),
          value(problem.value, FOVEA_BF16);
      narrow_call.query = query.view();
      narrow_call.key = key.view();
      narrow_call.value = value.view();
      CHECK_EQ(check_medium(problem, context, false), takes_bfloat16(narrow_call, context));
    });
  }

  TEST_CASE("float16 tensors, and scores other than the dot product, are computed as ever") {
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.query_len = 70, .key_len = 100, .head_dim = 32, .value_dim = 32}, random);
    for_each_isa([&](const fovea_context *context) {
      const AttentionResult result = problem.make_result(false);
      AttentionArguments call(problem, result);
      call.options.precision = FOVEA_PRECISION_MEDIUM;
      const NarrowTensor key(problem.key, FOVEA_F16);
      call.key = key.view();
      CHECK_FALSE(takes_bfloat16(call, context));
    });
    for (const int32_t kind : kScoreKinds) {
      if (kind == FOVEA_SCORE_DOT) continue;
      CAPTURE(kind);
      const AttentionProblem other =
          make_scored(kind, {.query_len = 70, .key_len = 100, .head_dim = 32, .value_dim = 32}, 32, random);
      for_each_isa([&](const fovea_context *context) {
        CHECK(same_outputs(run_with(other, context, FOVEA_PRECISION_MEDIUM, true),
                           run_with(other, context, FOVEA_PRECISION_HIGHEST, true)));
      });
    }
  }

  TEST_CASE("highest is the default, a context sets another, a call has the last word") {
    Random random(base_seed());
    const AttentionProblem problem =
        make_attention({.heads = 2, .query_len = 130, .key_len = 200, .head_dim = 64, .value_dim = 64}, random);
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const fovea_context *usual = shared_context(isa);
      const AttentionResult highest = run_with(problem, usual, FOVEA_PRECISION_HIGHEST, false);
      const AttentionResult medium = run_with(problem, usual, FOVEA_PRECISION_MEDIUM, false);
      CHECK(same_outputs(highest, run_with(problem, usual, FOVEA_PRECISION_DEFAULT, false)));
      CHECK(same_outputs(highest, run_with(problem, usual, FOVEA_PRECISION_HIGH, false)));
      const OwnContext set = make_context(isa, FOVEA_PRECISION_MEDIUM);
      CHECK(same_outputs(medium, run_with(problem, set.get(), FOVEA_PRECISION_DEFAULT, false)));
      CHECK(same_outputs(highest, run_with(problem, set.get(), FOVEA_PRECISION_HIGHEST, false)));
      const OwnContext one = make_context(isa, FOVEA_PRECISION_MEDIUM, 1),
                       three = make_context(isa, FOVEA_PRECISION_MEDIUM, 3);
      CHECK(same_outputs(medium, run_with(problem, one.get(), FOVEA_PRECISION_DEFAULT, false)));
      CHECK(same_outputs(medium, run_with(problem, three.get(), FOVEA_PRECISION_DEFAULT, false)));
    }
  }

  TEST_CASE("numbers that are no precision are refused") {
    Random random(base_seed());
    const AttentionProblem problem = make_attention({.query_len = 3, .key_len = 5}, random);
    for (const int32_t bad : {-1, 5, INT32_MAX}) {
      const std::string said = "options.precision is " + std::to_string(bad) + ", expected 0 to 4";
      const AttentionResult result = problem.make_result(false);
      AttentionArguments call(problem, result);
      call.options.precision = bad;
      check_refusal(call.run(nullptr), FOVEA_BAD_VALUE, {said});
      CHECK(result.out.untouched());
      fovea_context_options options{};
      options.struct_size = sizeof options;
      options.precision = bad;
      fovea_context *context = nullptr;
      check_refusal(fovea_context_create(&options, &context), FOVEA_BAD_VALUE, {said});
      CHECK(context == nullptr);
    }
  }
}
