// The same bits of gradients: for any number of threads, from run to run, for a batch entry wherever it stands, planned
// or not, whatever else is wanted.
#include <doctest/doctest.h>

#include "support/attention_plan.hpp"
#include "support/gradient_problem.hpp"
#include "support/random_attention.hpp"

using namespace testing;

namespace {

std::vector<AttentionProblem> some_problems(Random &random) {
  std::vector<AttentionProblem> list;
  for (const int32_t kind : kScoreKinds) {
    for (const AttentionSizes &sizes :
         {AttentionSizes{
              .batch = 2, .heads = 4, .kv_heads = 2, .query_len = 130, .key_len = 200, .head_dim = 12, .value_dim = 20},
          AttentionSizes{.query_len = 600, .key_len = 700, .head_dim = 8, .value_dim = 8}}) {
      AttentionProblem problem = make_scored(kind, sizes, 18, random);
      problem.flags = FOVEA_CAUSAL;
      problem.alibi_slopes.emplace(Shape{sizes.heads}).fill_normal(random);
      problem.sinks.emplace(Shape{sizes.heads}).fill_normal(random);
      problem.bias.emplace(Shape{1, 1, sizes.query_len, sizes.key_len}).fill_normal(random);
      problem.want_log_sum_exp = true;
      list.push_back(std::move(problem));
    }
  }
  return list;
}

GradientTensors backward(const fovea_context *context, const AttentionProblem &problem, const AttentionResult &result,
                         const GradientTensors &given) {
  GradientTensors gradients = unwritten(given);
  REQUIRE_OK(run_backward(context, problem, result, gradients));
  return gradients;
}

struct DestroyAPlan {
  void operator()(fovea_plan *plan) const { fovea_plan_destroy(plan); }
};

}  // namespace

TEST_SUITE("gradients bits") {
  TEST_CASE("gradients: one to eight threads, some of them again, and planned") {
    Random random(base_seed());
    for (AttentionProblem &problem : some_problems(random)) {
      const std::string what = problem.describe();
      CAPTURE(what);
      const GradientTensors given = make_gradients(problem, random);
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const AttentionResult result = problem.make_result(false);
        REQUIRE_OK(problem.run(shared_context(isa), result));
        const GradientTensors once = backward(shared_context(isa, 1), problem, result, given);
        for (const int threads : {1, 2, 3, 5, 8, 8}) {
          CAPTURE(threads);
          CHECK(same_bits(once, backward(shared_context(isa, threads), problem, result, given)));
        }
        const AttentionArguments forward(problem, result);
        const GradientTensors planned = unwritten(given);
        const GradientArguments arguments(planned);
        fovea_plan *raw = nullptr;
        REQUIRE_OK(fovea_attention_backward_plan_create(shared_context(isa, 3), &forward.score->score, &forward.query,
                                                        &forward.key, &forward.value, &forward.out, &forward.options,
                                                        &arguments.gradients, &raw));
        const std::unique_ptr<fovea_plan, DestroyAPlan> plan(raw);
        const GuardedMemory workspace(fovea_plan_workspace_size(raw));
        const fovea_attention_buffers buffers = buffers_of(forward, arguments);
        REQUIRE_OK(fovea_attention_run(raw, &buffers, workspace.data(), workspace.size()));
        CHECK(same_bits(once, planned));
      }
    }
  }

  TEST_CASE("a gradient has the bits it has where no other is wanted") {
    Random random(base_seed());
    for (AttentionProblem &problem : some_problems(random)) {
      const std::string what = problem.describe();
      CAPTURE(what);
      const GradientTensors given = make_gradients(problem, random);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        REQUIRE_OK(problem.run(context, result));
        const GradientTensors all = backward(context, problem, result, given);
        const AttentionArguments forward(problem, result);
        const GradientTensors some = unwritten(given);
        const GradientArguments arguments(some);
        using Member = const fovea_tensor *fovea_attention_gradients::*;
        using G = fovea_attention_gradients;
        for (const Member member :
             {&G::query, &G::key, &G::value, &G::bias, &G::alibi_slopes, &G::sinks, &G::query_weight, &G::key_weight,
              &G::weight, &G::score_bias, &G::score_vector, &G::sigmas}) {
          fovea_attention_gradients one{};
          one.struct_size = sizeof one;
          one.out = arguments.gradients.out;
          one.*member = arguments.gradients.*member;
          REQUIRE_OK(fovea_attention_backward(context, &forward.score->score, &forward.query, &forward.key,
                                              &forward.value, &forward.out, &forward.options, &one));
        }
        CHECK(same_bits(all, some));
      });
    }
  }

  TEST_CASE("no score is the dot product; weights and scores of the forward call's options are not looked at") {
    Random random(base_seed());
    AttentionProblem problem =
        make_attention({.heads = 2, .kv_heads = 1, .query_len = 9, .key_len = 20, .head_dim = 8}, random);
    const GradientTensors given = make_gradients(problem, random);
    const AttentionResult result = problem.make_result(false);
    REQUIRE_OK(problem.run(nullptr, result));
    const GradientTensors without = backward(nullptr, problem, result, given), with = unwritten(given);
    const AttentionArguments forward(problem, result);
    const GradientArguments arguments(with);
    fovea_score score{};
    score.struct_size = sizeof score;
    fovea_attention_options options = forward.options;
    fovea_tensor wrong = forward.query;  // an input, of another shape
    options.weights = options.scores = &wrong;
    REQUIRE_OK(fovea_attention_backward(nullptr, &score, &forward.query, &forward.key, &forward.value, &forward.out,
                                        &options, &arguments.gradients));
    CHECK(same_bits(without, with));
  }

  TEST_CASE("gradients are written, not added to") {
    Random random(base_seed());
    for (AttentionProblem &problem : some_problems(random)) {
      const GradientTensors given = make_gradients(problem, random);
      const AttentionResult result = problem.make_result(false);
      REQUIRE_OK(problem.run(nullptr, result));
      const GradientTensors once = backward(nullptr, problem, result, given), twice = unwritten(given);
      REQUIRE_OK(run_backward(nullptr, problem, result, twice));
      REQUIRE_OK(run_backward(nullptr, problem, result, twice));
      CHECK(same_bits(once, twice));
    }
  }

  // With as many queries as keys, all pairs would take a thousand times as many bytes.
  TEST_CASE("the workspace of a backward pass grows with the lengths, not with their product") {
    for (const int32_t kind : kScoreKinds) {
      std::vector<size_t> sizes;
      for (const int64_t length : {int64_t{1} << 14, int64_t{1} << 17}) {
        Random random(base_seed());
        const AttentionProblem small = make_scored(kind, {.head_dim = 8, .value_dim = 8}, 16, random);
        const AttentionResult result = small.make_result(false);
        AttentionProblem problem = make_scored(kind, {.head_dim = 8, .value_dim = 8}, 16, random);
        GradientTensors tensors = make_gradients(problem, random);
        AttentionArguments forward(problem, result);
        GradientArguments backward(tensors);
        for (fovea_tensor *tensor : {&forward.query, &forward.key, &forward.value, &forward.out, &forward.log_sum_exp,
                                     &backward.out, &backward.query, &backward.key, &backward.value}) {
          tensor->shape[2] = length;
          tensor->data = nullptr;
        }
        fovea_plan *raw = nullptr;
        REQUIRE_OK(fovea_attention_backward_plan_create(shared_context("base", 2), &forward.score->score,
                                                        &forward.query, &forward.key, &forward.value, &forward.out,
                                                        &forward.options, &backward.gradients, &raw));
        const std::unique_ptr<fovea_plan, DestroyAPlan> plan(raw);
        sizes.push_back(fovea_plan_workspace_size(raw));
      }
      CAPTURE(sizes[0]);
      CAPTURE(sizes[1]);
      CHECK_LE(sizes[1], 9 * sizes[0]);
    }
  }

  TEST_CASE("a batch entry's gradients, wherever it stands") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      const AttentionSizes sizes = {
          .batch = 5, .heads = 2, .kv_heads = 1, .query_len = 70, .key_len = 90, .head_dim = 8, .value_dim = 12};
      AttentionProblem problem = make_scored(kind, sizes, 18, random);
      const GradientTensors given = make_gradients(problem, random);
      // Entry 0's numbers in all others, too.
      const auto repeat = [](const Tensor<float> &tensor) {
        tensor.memory().thaw();
        for_each_index(tensor.shape(),
                       [&](const Shape &at) { tensor.at(at) = tensor(int64_t{0}, at[1], at[2], at[3]); });
      };
      repeat(problem.query);
      repeat(problem.key);
      repeat(problem.value);
      repeat(given.out);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult result = problem.make_result(false);
        REQUIRE_OK(problem.run(context, result));
        const GradientTensors gradients = backward(context, problem, result, given);
        for (const Tensor<float> *tensor : {&gradients.query, &gradients.key, &gradients.value}) {
          for_each_index(tensor->shape(), [&](const Shape &at) {
            REQUIRE_EQ(tensor->at(at), (*tensor)(int64_t{0}, at[1], at[2], at[3]));
          });
        }
      });
    }
  }

  // The first queries alone, and with others behind them.
  TEST_CASE("with FOVEA_QUERY_INVARIANT a query's gradient does not depend on how many queries there are") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (const int64_t fewer : {1, 40, 64, 100}) {
        CAPTURE(kind);
        CAPTURE(fewer);
        AttentionSizes sizes = {
            .heads = 2, .kv_heads = 1, .query_len = 150, .key_len = 300, .head_dim = 20, .value_dim = 12};
        AttentionProblem many = make_scored(kind, sizes, 18, random);
        many.flags = FOVEA_QUERY_INVARIANT | FOVEA_CAUSAL | FOVEA_TOP_LEFT;
        if (kind == FOVEA_SCORE_GAUSSIAN) {  // near and far pairs beside each other
          for (const Tensor<float> *points : {&many.query, &many.key}) {
            points->memory().thaw();
            for_each_index(points->shape(), [&](const Shape &at) { points->at(at) += 2.6F; });
          }
        }
        const GradientTensors of_many = make_gradients(many, random);
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = many.make_result(false);
          REQUIRE_OK(many.run(context, result));
          const GradientTensors all = backward(context, many, result, of_many);
          const AttentionArguments forward(many, result);
          const GradientTensors few = unwritten(of_many);
          const GradientArguments arguments(few);
          const auto cut = [&](fovea_tensor tensor) {
            tensor.shape[2] = fewer;
            return tensor;
          };
          const fovea_tensor query = cut(forward.query), out = cut(forward.out), lse = cut(forward.log_sum_exp),
                             grad_out = cut(arguments.out), grad_query = cut(arguments.query);
          fovea_attention_options options = forward.options;
          options.log_sum_exp = &lse;
          fovea_attention_gradients gradients{};
          gradients.struct_size = sizeof gradients;
          gradients.out = &grad_out;
          gradients.query = &grad_query;
          REQUIRE_OK(fovea_attention_backward(context, &forward.score->score, &query, &forward.key, &forward.value,
                                              &out, &options, &gradients));
          for_each_index(few.query.shape(), [&](const Shape &at) {
            if (at[2] < fewer) REQUIRE_EQ(few.query.at(at), all.query.at(at));
          });
        });
      }
    }
  }
}
