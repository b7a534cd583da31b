// Gradients of tensors of 16 bits, in any mix: the bits that float32 tensors of these numbers give, rounded once. Those of
// tensors that all are of bfloat16 have tests of their own (pairs.cpp).
#include <doctest/doctest.h>

#include "support/gradient_problem.hpp"
#include "support/narrow.hpp"

using namespace testing;

namespace {

constexpr fovea_dtype kTypes[] = {FOVEA_F32, FOVEA_F16, FOVEA_BF16};

// Elements that the type holds.
void round_to(const Tensor<float> &tensor, fovea_dtype dtype) {
  tensor.memory().thaw();
  for_each_index(tensor.shape(), [&](const Shape &at) { tensor.at(at) = rounded_to(tensor.at(at), dtype); });
}

void check_bits(const char *name, const Tensor<float> &exact, const Tensor<float> &as_floats,
                const NarrowTensor &narrow, fovea_dtype dtype) {
  CAPTURE(name);
  size_t wrong = 0;
  for_each_index(exact.shape(), [&](const Shape &at) {
    if (dtype == FOVEA_F32) {
      wrong += exact.at(at) != as_floats.at(at);
    } else {
      wrong += narrowed(exact.at(at), dtype) != narrow.at(at);
    }
  });
  CHECK_EQ(wrong, 0u);
  CHECK(narrow.gaps_untouched());
}

}  // namespace

TEST_SUITE("gradients element types") {
  TEST_CASE("inputs and gradients of any type") {
    Random random(base_seed());
    for (const int32_t kind : kScoreKinds) {
      for (int n = 0; n < 12; ++n) {
        const fovea_dtype of_query = kTypes[random.integer(0, 2)], of_key = kTypes[random.integer(0, 2)],
                          of_value = kTypes[random.integer(0, 2)], of_grads = kTypes[random.integer(0, 2)],
                          of_out = kTypes[random.integer(0, 2)];
        CAPTURE(kind);
        CAPTURE(of_query);
        CAPTURE(of_key);
        CAPTURE(of_value);
        CAPTURE(of_grads);
        CAPTURE(of_out);
        AttentionProblem problem = make_scored(
            kind,
            {.batch = 2, .heads = 2, .kv_heads = 1, .query_len = 37, .key_len = 150, .head_dim = 14, .value_dim = 10},
            16, random, random.pick({Layout::kHeadsFirst, Layout::kHeadsLast, Layout::kPadded}));
        const GradientTensors gradients = make_gradients(problem, random);
        round_to(problem.query, of_query);
        round_to(problem.key, of_key);
        round_to(problem.value, of_value);
        round_to(gradients.out, of_out);
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          REQUIRE_OK(problem.run(context, result));
          round_to(result.out, of_out);
          const GradientTensors floats = unwritten(gradients), others = unwritten(gradients);
          REQUIRE_OK(run_backward(context, problem, result, floats));
          const NarrowTensor query(problem.query, of_query), key(problem.key, of_key), value(problem.value, of_value),
              out(result.out, of_out), grad_out(gradients.out, of_out), grad_query(others.query, of_grads),
              grad_key(others.key, of_grads), grad_value(others.value, of_grads);
          AttentionArguments forward(problem, result);
          GradientArguments backward(others);
          const auto narrow = [](fovea_tensor &tensor, const NarrowTensor &as, fovea_dtype dtype) {
            if (dtype != FOVEA_F32) tensor = as.view();
          };
          narrow(forward.query, query, of_query);
          narrow(forward.key, key, of_key);
          narrow(forward.value, value, of_value);
          narrow(forward.out, out, of_out);
          narrow(backward.out, grad_out, of_out);
          narrow(backward.query, grad_query, of_grads);
          narrow(backward.key, grad_key, of_grads);
          narrow(backward.value, grad_value, of_grads);
          REQUIRE_OK(fovea_attention_backward(context, &forward.score->score, &forward.query, &forward.key,
                                              &forward.value, &forward.out, &forward.options, &backward.gradients));
          const bool all_bfloat16 =
              of_query == FOVEA_BF16 && of_key == FOVEA_BF16 && of_value == FOVEA_BF16 && of_out == FOVEA_BF16;
          if (kind == FOVEA_SCORE_DOT && all_bfloat16 && has_products_of(FOVEA_BF16, context)) return;
          if (kind == FOVEA_SCORE_DOT || kind == FOVEA_SCORE_GAUSSIAN || !has_products_of(of_query, context)) {
            check_bits("query", floats.query, others.query, grad_query, of_grads);
            check_bits("key", floats.key, others.key, grad_key, of_grads);
            check_bits("value", floats.value, others.value, grad_value, of_grads);
          }
        });
      }
    }
  }
}
