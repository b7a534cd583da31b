// What calls with kept projections refuse: with which status and words, and outputs as they were.
#include <doctest/doctest.h>

#include "support/attention_plan.hpp"
#include "support/errors.hpp"
#include "support/gradient_problem.hpp"
#include "support/kept_projections.hpp"
#include "support/prepared_keys.hpp"

using namespace testing;

namespace {

AttentionProblem make(int32_t kind, Random &random) {
  return make_scored(
      kind, {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 9, .key_len = 31, .head_dim = 6, .value_dim = 8}, 16,
      random);
}

}  // namespace

TEST_SUITE("kept projections errors") {
  TEST_CASE("score functions that keep none") {
    Random random(base_seed());
    for (const int32_t kind : {FOVEA_SCORE_DOT, FOVEA_SCORE_BILINEAR, FOVEA_SCORE_GAUSSIAN}) {
      AttentionProblem problem =
          make_scored(kind, {.query_len = 3, .key_len = 5, .head_dim = 4, .value_dim = 4}, 7, random);
      problem.want_log_sum_exp = true;
      const AttentionResult result = problem.make_result(false);
      const Tensor<float> some(Shape{1, 1, 3, 4}), other(Shape{1, 1, 5, 4});
      const fovea_tensor query = some.view(), key = other.view();
      const std::string ours = "expected NULL: FOVEA_SCORE_ADDITIVE and FOVEA_SCORE_CONCAT have it";
      const GradientTensors gradients = make_gradients(problem, random);
      const GradientArguments backward(gradients);
      for (const bool of_query : {true, false}) {
        AttentionArguments forward(problem, result);
        (of_query ? forward.options.projected_query : forward.options.projected_key) = of_query ? &query : &key;
        const std::string name = of_query ? "projected_query" : "projected_key";
        check_refusal(forward.run(nullptr), FOVEA_BAD_VALUE, {name + " is given", ours});
        check_refusal(fovea_attention_backward(nullptr, &forward.score->score, &forward.query, &forward.key,
                                               &forward.value, &forward.out, &forward.options, &backward.gradients),
                      FOVEA_BAD_VALUE, {name + " is given", ours});
      }
      CHECK(result.out.untouched());
      CHECK(some.untouched());
    }
  }

  TEST_CASE("prepared keys keep none") {
    Random random(base_seed());
    const AttentionProblem problem =
        make_scored(FOVEA_SCORE_ADDITIVE, {.query_len = 3, .key_len = 5, .head_dim = 4}, 7, random);
    const AttentionResult result = problem.make_result(false);
    const Keys keys = make_full(nullptr, problem);
    const KeptProjections kept(problem);
    for (const Kept which : {Kept::query, Kept::key}) {
      AttentionArguments forward(problem, result);
      const KeptArguments its(kept, forward.options, which);
      check_refusal(
          fovea_attention_prepared(nullptr, &forward.query, keys.get(), &forward.value, &forward.out, &forward.options),
          FOVEA_BAD_VALUE,
          {which == Kept::query ? "projected_query is given" : "projected_key is given", "keys are prepared"});
    }
    CHECK(result.out.untouched());
  }

  TEST_CASE("shapes, strides, element types, memory") {
    Random random(base_seed());
    for (const int32_t kind : {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT}) {
      AttentionProblem problem = make(kind, random);
      const GradientTensors gradients = make_gradients(problem, random);
      const GradientArguments backward(gradients);
      const AttentionResult result = problem.make_result(false);
      const KeptProjections kept(problem);
      for (const Kept which : {Kept::query, Kept::key}) {
        const std::string name = which == Kept::query ? "projected_query" : "projected_key";
        CAPTURE(name);
        AttentionArguments forward(problem, result);
        KeptArguments its(kept, forward.options);
        fovea_tensor &tensor = which == Kept::query ? its.query : its.key;
        const fovea_tensor good = tensor;
        const auto refused = [&](fovea_status status, const std::string &words, bool backwards = true) {
          check_refusal(forward.run(nullptr), status, {name, words});
          if (backwards) {
            check_refusal(fovea_attention_backward(nullptr, &forward.score->score, &forward.query, &forward.key,
                                                   &forward.value, &forward.out, &forward.options, &backward.gradients),
                          status, {name, words});
          }
          tensor = good;
        };
        for (const auto &[axis, words] :
             {std::pair{0, "batch entries"}, {1, "heads"}, {2, "positions"}, {3, "hidden units"}}) {
          --tensor.shape[axis];
          refused(FOVEA_BAD_SHAPE, words);
        }
        tensor.rank = 3;
        refused(FOVEA_BAD_RANK, "rank");
        tensor.strides[3] = 2;
        refused(FOVEA_BAD_STRIDE, "strides[3]");
        for (const fovea_dtype dtype : kDtypes) {
          if (dtype == FOVEA_F32) continue;
          tensor.dtype = dtype;
          refused(FOVEA_BAD_DTYPE, dtype_name(dtype));
        }
        tensor.data = nullptr;
        refused(FOVEA_NULL_POINTER, "data");
        tensor.data = static_cast<char *>(good.data) + 2;
        refused(FOVEA_BAD_VALUE, "a multiple of the element size");
        tensor.strides[2] = 0;
        refused(FOVEA_BAD_STRIDE, "strides", false);
        tensor.data = forward.key.data;
        refused(FOVEA_OVERLAP, "key", false);
        tensor.data = forward.out.data;
        refused(FOVEA_OVERLAP, "out", false);
        tensor.data = (which == Kept::query ? its.key : its.query).data;
        refused(FOVEA_OVERLAP, "projected_", false);
        tensor.data = backward.query.data;  // an input there
        check_refusal(fovea_attention_backward(nullptr, &forward.score->score, &forward.query, &forward.key,
                                               &forward.value, &forward.out, &forward.options, &backward.gradients),
                      FOVEA_OVERLAP, {"gradients.query", name});
      }
      CHECK(result.out.untouched());
      CHECK(kept.query.untouched());
      CHECK(kept.key.untouched());
      CHECK(gradients.query.untouched());
    }
  }

  TEST_CASE("a plan's run: what was planned must be there, and nothing else") {
    Random random(base_seed());
    AttentionProblem problem = make(FOVEA_SCORE_ADDITIVE, random);
    const AttentionResult result = problem.make_result(false);
    const KeptProjections kept(problem);
    AttentionArguments forward(problem, result);
    const KeptArguments its(kept, forward.options, Kept::query);
    fovea_plan *raw = nullptr;
    REQUIRE_OK(forward.plan(nullptr, &raw));
    const AttentionPlan plan(raw);
    CHECK(plan.describe().find(" keeps=query ") != std::string::npos);
    fovea_attention_buffers buffers = buffers_of(forward);
    check_refusal(plan.run(buffers), FOVEA_NULL_POINTER, {"buffers.projected_query"});
    buffers.projected_query = kept.query.data();
    buffers.projected_key = kept.key.data();
    check_refusal(plan.run(buffers), FOVEA_BAD_VALUE, {"buffers.projected_key is", "the plan was made without it"});
    CHECK(result.out.untouched());
    buffers.projected_key = nullptr;
    REQUIRE_OK(plan.run(buffers));
  }
}
