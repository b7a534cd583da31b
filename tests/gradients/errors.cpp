// What a backward pass refuses: with which status and words, and outputs as they were.
#include <doctest/doctest.h>

#include <functional>

#include "support/attention_plan.hpp"
#include "support/errors.hpp"
#include "support/gradient_problem.hpp"

using namespace testing;

namespace {

struct Call {
  AttentionProblem problem;
  AttentionResult result;
  GradientTensors tensors;
  AttentionArguments forward;
  GradientArguments backward;

  explicit Call(int32_t kind = FOVEA_SCORE_DOT) : Call(kind, Random(base_seed())) {}

  Call(int32_t kind, Random random)
      : problem(make(kind, random)),
        tensors(make_gradients(problem, random)),
        forward(problem, (result = problem.make_result(false), result_ran())),
        backward(tensors) {}

  static AttentionProblem make(int32_t kind, Random &random) {
    AttentionProblem problem = make_scored(
        kind, {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 5, .key_len = 7, .head_dim = 6, .value_dim = 8}, 9,
        random);
    problem.bias.emplace(Shape{1, 4, 5, 7}).fill_normal(random);
    problem.alibi_slopes.emplace(Shape{4}).fill_normal(random);
    problem.sinks.emplace(Shape{4}).fill_normal(random);
    return problem;
  }

  const AttentionResult &result_ran() {
    REQUIRE_OK(problem.run(nullptr, result));
    return result;
  }

  fovea_status run() {
    return fovea_attention_backward(nullptr, &forward.score->score, &forward.query, &forward.key, &forward.value,
                                    &forward.out, &forward.options, &backward.gradients);
  }

  void refused(fovea_status expected, std::initializer_list<std::string> words) {
    check_refusal(run(), expected, words);
    CHECK(tensors.query.untouched());
    CHECK(tensors.key.untouched());
    CHECK(tensors.value.untouched());
  }
};

}  // namespace

TEST_SUITE("gradients errors") {
  TEST_CASE("what must be given") {
    {
      Call call;
      call.forward.options.log_sum_exp = nullptr;
      call.refused(FOVEA_NULL_POINTER, {"options.log_sum_exp", "forward call"});
    }
    {
      Call call;
      call.backward.gradients.out = nullptr;
      call.refused(FOVEA_NULL_POINTER, {"gradients.out"});
    }
    {
      Call call;
      check_refusal(fovea_attention_backward(nullptr, nullptr, &call.forward.query, &call.forward.key,
                                             &call.forward.value, &call.forward.out, &call.forward.options, nullptr),
                    FOVEA_NULL_POINTER, {"gradients is NULL"});
      check_refusal(fovea_attention_backward(nullptr, nullptr, nullptr, &call.forward.key, &call.forward.value,
                                             &call.forward.out, &call.forward.options, &call.backward.gradients),
                    FOVEA_NULL_POINTER, {"query is NULL"});
    }
  }

  TEST_CASE("a gradient has the shape of what it belongs to") {
    struct Case {
      fovea_tensor GradientArguments::*tensor;
      std::string name;
      int32_t kind;
    };
    for (const Case &one :
         std::initializer_list<Case>{{&GradientArguments::out, "gradients.out", FOVEA_SCORE_DOT},
                                     {&GradientArguments::query, "gradients.query", FOVEA_SCORE_DOT},
                                     {&GradientArguments::key, "gradients.key", FOVEA_SCORE_DOT},
                                     {&GradientArguments::value, "gradients.value", FOVEA_SCORE_DOT},
                                     {&GradientArguments::bias, "gradients.bias", FOVEA_SCORE_DOT},
                                     {&GradientArguments::alibi_slopes, "gradients.alibi_slopes", FOVEA_SCORE_DOT},
                                     {&GradientArguments::sinks, "gradients.sinks", FOVEA_SCORE_DOT},
                                     {&GradientArguments::query_weight, "gradients.query_weight", FOVEA_SCORE_ADDITIVE},
                                     {&GradientArguments::key_weight, "gradients.key_weight", FOVEA_SCORE_ADDITIVE},
                                     {&GradientArguments::score_vector, "gradients.score_vector", FOVEA_SCORE_CONCAT},
                                     {&GradientArguments::score_bias, "gradients.score_bias", FOVEA_SCORE_CONCAT},
                                     {&GradientArguments::weight, "gradients.weight", FOVEA_SCORE_BILINEAR},
                                     {&GradientArguments::sigmas, "gradients.sigmas", FOVEA_SCORE_GAUSSIAN}}) {
      CAPTURE(one.name);
      const int rank = (Call(one.kind).backward.*one.tensor).rank;
      for (int axis = 0; axis < rank; ++axis) {
        Call call(one.kind);
        --(call.backward.*one.tensor).shape[axis];
        call.refused(FOVEA_BAD_SHAPE, {axis_of(one.name, "shape", axis)});
      }
      Call call(one.kind);
      (call.backward.*one.tensor).rank = rank == 1 ? 2 : rank - 1;
      call.refused(FOVEA_BAD_RANK, {one.name});
      for (const fovea_dtype dtype : kDtypes) {
        const bool narrow =
            one.name != "gradients.alibi_slopes" && one.name != "gradients.sinks" && one.name != "gradients.sigmas";
        if (dtype == FOVEA_F32 || (narrow && (dtype == FOVEA_F16 || dtype == FOVEA_BF16))) continue;
        Call other(one.kind);
        (other.backward.*one.tensor).dtype = dtype;
        other.refused(FOVEA_BAD_DTYPE, {one.name, dtype_name(dtype)});
      }
      Call none(one.kind);
      (none.backward.*one.tensor).data = nullptr;
      none.refused(FOVEA_NULL_POINTER, {one.name});
    }
  }

  TEST_CASE("a gradient of what was not given") {
    Call call(FOVEA_SCORE_DOT);
    call.forward.options.bias = nullptr;
    call.refused(FOVEA_BAD_VALUE, {"gradients.bias is given, expected NULL", "bias is NULL"});
    Call additive(FOVEA_SCORE_ADDITIVE);
    additive.backward.gradients.sigmas = additive.backward.gradients.sinks;
    additive.refused(FOVEA_BAD_VALUE, {"gradients.sigmas is given", "score.sigmas"});
  }

  TEST_CASE("gradients that overlap") {
    {
      Call call;
      call.backward.query.data = call.forward.key.data;
      call.refused(FOVEA_OVERLAP, {"gradients.query", "key"});
    }
    {
      Call call;
      call.backward.value.data = call.backward.out.data;
      call.refused(FOVEA_OVERLAP, {"gradients.value", "gradients.out"});
    }
    {
      Call call;
      call.backward.key.data = call.forward.out.data;
      call.refused(FOVEA_OVERLAP, {"gradients.key", "out"});
    }
    {
      Call call;
      call.backward.alibi_slopes.data = call.backward.sinks.data;
      check_refusal(call.run(), FOVEA_OVERLAP, {"gradients.alibi_slopes", "gradients.sinks"});
    }
    {
      Call call;
      call.backward.value.strides[2] = 0;
      call.refused(FOVEA_BAD_STRIDE, {"gradients.value"});
    }
  }

  TEST_CASE("keys of 8 bits have no gradient") {
    Call call;
    call.forward.key.dtype = FOVEA_I8;
    const Tensor<uint16_t> scales(Shape{2, 2, 7, 1});
    fovea_tensor given = scales.view();
    given.dtype = FOVEA_F16;
    call.forward.options.key_scales = &given;
    call.refused(FOVEA_BAD_DTYPE, {"key has dtype FOVEA_I8", "no gradient"});
  }

  TEST_CASE("values of 4 bits have no gradient") {
    Call call;
    const Tensor<uint8_t> numbers(Shape{2, 2, 7, 16});
    const Tensor<uint16_t> scales(Shape{2, 2, 7, 2});
    const Tensor<float> out(Shape{2, 4, 5, 32});
    fovea_tensor given = scales.view();
    given.dtype = FOVEA_F16;
    call.forward.value = numbers.view();
    call.forward.value.dtype = FOVEA_U8;
    call.forward.out = out.view();
    call.forward.options.value_scales = &given;
    call.refused(FOVEA_BAD_DTYPE, {"value has dtype FOVEA_U8", "4 bits", "no gradient"});
  }

  TEST_CASE("structs of other sizes") {
    Call call;
    call.backward.gradients.struct_size = sizeof(fovea_attention_gradients) - 1;
    call.refused(FOVEA_BAD_OPTION, {"gradients.struct_size"});
    Call none;
    none.backward.gradients.struct_size = 0;
    none.refused(FOVEA_BAD_OPTION, {"gradients.struct_size"});
  }

  TEST_CASE("a plan's run: what was planned must be there, and nothing else; workspace") {
    Call call;
    call.backward.gradients.sinks = nullptr;
    fovea_plan *raw = nullptr;
    check_refusal(fovea_attention_backward_plan_create(nullptr, &call.forward.score->score, &call.forward.query,
                                                       &call.forward.key, &call.forward.value, &call.forward.out,
                                                       &call.forward.options, &call.backward.gradients, nullptr),
                  FOVEA_NULL_POINTER, {"plan is NULL"});
    REQUIRE_OK(fovea_attention_backward_plan_create(nullptr, &call.forward.score->score, &call.forward.query,
                                                    &call.forward.key, &call.forward.value, &call.forward.out,
                                                    &call.forward.options, &call.backward.gradients, &raw));
    const std::unique_ptr<fovea_plan, DestroyPlan> plan(raw);
    const GuardedMemory workspace(fovea_plan_workspace_size(raw));
    const auto run = [&](const fovea_attention_buffers &buffers, size_t size) {
      return fovea_attention_run(raw, &buffers, workspace.data(), size);
    };
    fovea_attention_buffers all = buffers_of(call.forward, call.backward);
    check_refusal(run(all, workspace.size()), FOVEA_BAD_VALUE,
                  {"buffers.grad_sinks is", "the plan was made without it"});
    all.grad_sinks = nullptr;
    check_refusal(run(all, workspace.size() - 1), FOVEA_WORKSPACE_TOO_SMALL, {"workspace_size"});
    fovea_attention_buffers less = all;
    less.grad_key = nullptr;
    check_refusal(run(less, workspace.size()), FOVEA_NULL_POINTER, {"buffers.grad_key"});
    less = all;
    less.grad_out = nullptr;
    check_refusal(run(less, workspace.size()), FOVEA_NULL_POINTER, {"buffers.grad_out"});
    CHECK(call.tensors.query.untouched());
    REQUIRE_OK(run(all, workspace.size()));
    char text[512];
    CHECK_GT(fovea_plan_describe(raw, text, sizeof text), 0u);
    CHECK(std::string(text).find("op=sdpa_backward isa=") == 0);
  }

  TEST_CASE("a plan of attention takes no gradients") {
    Call call;
    fovea_plan *raw = nullptr;
    REQUIRE_OK(call.forward.plan(nullptr, &raw));
    const std::unique_ptr<fovea_plan, DestroyPlan> plan(raw);
    const GuardedMemory workspace(fovea_plan_workspace_size(raw));
    const fovea_attention_buffers buffers = buffers_of(call.forward, call.backward);
    check_refusal(fovea_attention_run(raw, &buffers, workspace.data(), workspace.size()), FOVEA_BAD_VALUE,
                  {"buffers.grad_out", "the plan was made without it"});
  }
}
