// Gradients of tensors that are all of bfloat16, which sets with products of pairs multiply as such: weights and
// gradients of scores are rounded to bfloat16 where they meet rows, so each term is off by up to 2^-8 of itself
// beside what float32 loses. Other sets are held to the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "support/accuracy.hpp"
#include "support/gradient_problem.hpp"
#include "support/narrow.hpp"
#include "support/random_attention.hpp"

using namespace testing;

namespace {

void round_all(const Tensor<float> &tensor) {
  tensor.memory().thaw();
  for_each_index(tensor.shape(), [&](const Shape &at) { tensor.at(at) = rounded_to(tensor.at(at), FOVEA_BF16); });
}

std::array<const Tensor<float> *, 4> tensors_of(const AttentionProblem &problem, const GradientTensors &gradients) {
  return {&problem.query, &problem.key, &problem.value, &gradients.out};
}

void round_inputs(const AttentionProblem &problem, const GradientTensors &gradients) {
  for (const Tensor<float> *tensor : tensors_of(problem, gradients)) round_all(*tensor);
}

// The call on tensors of bfloat16; out, and the gradients that it writes, are floats.
struct PairCall {
  const NarrowTensor query, key, value, grad_out;
  const AttentionArguments forward;
  GradientArguments backward;
  const fovea_tensor narrow_query, narrow_key, narrow_value, narrow_grad_out;

  PairCall(const AttentionProblem &problem, const AttentionResult &result, const GradientTensors &gradients)
      : query(problem.query, FOVEA_BF16),
        key(problem.key, FOVEA_BF16),
        value(problem.value, FOVEA_BF16),
        grad_out(gradients.out, FOVEA_BF16),
        forward(problem, result),
        backward(gradients),
        narrow_query(query.view()),
        narrow_key(key.view()),
        narrow_value(value.view()),
        narrow_grad_out(grad_out.view()) {
    backward.gradients.out = &narrow_grad_out;
  }

  const fovea_score *score() const { return forward.score ? &forward.score->score : nullptr; }

  fovea_status run(const fovea_context *context) const {
    return fovea_attention_backward(context, score(), &narrow_query, &narrow_key, &narrow_value, &forward.out,
                                    &forward.options, &backward.gradients);
  }

  std::string kernels(const fovea_context *context) const {
    fovea_plan *plan = nullptr;
    REQUIRE_OK(fovea_attention_backward_plan_create(context, score(), &narrow_query, &narrow_key, &narrow_value,
                                                    &forward.out, &forward.options, &backward.gradients, &plan));
    char text[512];
    fovea_plan_describe(plan, text, sizeof text);
    fovea_plan_destroy(plan);
    return text;
  }
};

// Forward as floats: only the backward pass is looked at.
GradientTensors run_pairs(const fovea_context *context, const AttentionProblem &problem, const AttentionResult &result,
                          const GradientTensors &given) {
  GradientTensors gradients = unwritten(given);
  REQUIRE_OK(PairCall(problem, result, gradients).run(context));
  return gradients;
}

void judge_pairs(const AttentionProblem &problem, const GradientTensors &given) {
  const reference::AttentionInputs inputs = problem.reference_inputs();
  const reference::OutputGradients reaching = output_gradients(problem, given);
  const auto truth = reference::attention_gradients<double>(inputs, reaching);
  const auto plain = reference::attention_gradients<float>(inputs, reaching);
  const double roundings = 16 + 8 * truth.largest_score;
  const auto check = [&](const char *name, const Tensor<float> &actual, const auto &exact, const auto &floats) {
    CAPTURE(name);
    std::vector<double> bounds;
    for (const double magnitude : exact.magnitudes) {
      bounds.push_back((0x1p-8 + roundings * kEpsilon) * (std::isfinite(magnitude) ? magnitude : 0.0) + 1e-30);
    }
    CHECK_EQ(judge_elements(actual.dense(), exact.values, floats.values, bounds), "");
    CHECK(actual.gaps_untouched());
  };
  for_each_isa([&](const fovea_context *context) {
    const AttentionResult result = problem.make_result(false);
    REQUIRE_OK(problem.run(context, result));
    const GradientTensors actual = run_pairs(context, problem, result, given);
    check("query", actual.query, truth.query, plain.query);
    check("key", actual.key, truth.key, plain.key);
    check("value", actual.value, truth.value, plain.value);
  });
}

AttentionProblem make(const AttentionSizes &sizes, Random &random) {
  return make_scored(FOVEA_SCORE_DOT, sizes, 0, random);
}

bool all_finite(const Tensor<float> &tensor) {
  const std::vector<float> values = tensor.dense();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

TEST_SUITE("gradients pairs") {
  TEST_CASE("lengths around the edges of pairs, registers and tiles, features whole or not") {
    Random random(base_seed());
    for (const int64_t queries : {1, 2, 3, 15, 16, 17, 33, 63, 64, 65, 130}) {
      for (const int64_t keys : {1, 2, 3, 31, 95, 96, 97, 193}) {
        const int64_t dim = random.pick({2, 6, 16, 30, 32, 34, 64, 66, 128}),
                      value_dim = random.pick({2, 14, 32, 48, 80});
        CAPTURE(queries);
        CAPTURE(keys);
        CAPTURE(dim);
        CAPTURE(value_dim);
        AttentionProblem problem = make(
            {.heads = 2, .kv_heads = 1, .query_len = queries, .key_len = keys, .head_dim = dim, .value_dim = value_dim},
            random);
        const GradientTensors gradients = make_gradients(problem, random);
        round_inputs(problem, gradients);
        judge_pairs(problem, gradients);
      }
    }
  }

  TEST_CASE("any options") {
    for (int64_t n = 0; n < case_count(400); ++n) {
      const uint64_t seed = base_seed() + static_cast<uint64_t>(n);
      CAPTURE(seed);
      Random random(seed);
      const WithPlacement placement(random.pick({Placement::kEnd, Placement::kBegin, Placement::kMisaligned}));
      AttentionProblem problem = random_problem(random, n % 20 == 0 ? 260 : 40, n % 20 == 0 ? 130 : 24);
      const GradientTensors gradients = make_gradients(problem, random, random.chance(0.3), random.chance(0.2));
      round_inputs(problem, gradients);
      judge_pairs(problem, gradients);
    }
  }

  // Windows begin at odd keys, too, which a pair of keys must not show.
  TEST_CASE("windows and lengths that begin and end within pairs") {
    Random random(base_seed());
    for (const int64_t left : {0, 1, 2, 7, 30, 95, 96}) {
      for (const int64_t queries : {1, 5, 64, 100}) {
        CAPTURE(left);
        CAPTURE(queries);
        AttentionProblem problem = make({.batch = 2,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .query_len = queries,
                                         .key_len = 231,
                                         .head_dim = 32,
                                         .value_dim = 16},
                                        random);
        problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
        problem.window_left = left;
        problem.set_valid_lens({231, 176});
        const GradientTensors gradients = make_gradients(problem, random);
        round_inputs(problem, gradients);
        judge_pairs(problem, gradients);
      }
    }
  }

  TEST_CASE("products of pairs are taken where there are some, and only of whole pairs") {
    Random random(base_seed());
    for (const int64_t dim : {32, 33}) {
      for (const int64_t value_dim : {16, 17}) {
        AttentionProblem problem =
            make({.query_len = 20, .key_len = 30, .head_dim = dim, .value_dim = value_dim}, random);
        const GradientTensors gradients = make_gradients(problem, random);
        round_inputs(problem, gradients);
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          const std::string text = PairCall(problem, result, gradients).kernels(context);
          CAPTURE(text);
          const bool whole = dim % 2 == 0 && value_dim % 2 == 0;
          const bool takes_pairs = text.find("kernels=avx512bf16") != std::string::npos;
          // Tiles have no backward pass: their sets take pairs.
          CHECK_EQ(takes_pairs, whole && has_products_of(FOVEA_BF16, context));
        });
      }
    }
  }

  TEST_CASE("the same bits on any number of threads, for any batch entry") {
    Random random(base_seed());
    AttentionProblem problem =
        make({.batch = 3, .heads = 4, .kv_heads = 2, .query_len = 330, .key_len = 517, .head_dim = 40, .value_dim = 24},
             random);
    problem.flags = FOVEA_CAUSAL;
    const GradientTensors given = make_gradients(problem, random);
    for (const Tensor<float> *tensor : tensors_of(problem, given)) {
      tensor->memory().thaw();
      for_each_index(tensor->shape(),
                     [&](const Shape &at) { tensor->at(at) = (*tensor)(int64_t{0}, at[1], at[2], at[3]); });
    }
    round_inputs(problem, given);
    for (const std::string &isa : instruction_sets()) {
      CAPTURE(isa);
      const AttentionResult result = problem.make_result(false);
      REQUIRE_OK(problem.run(shared_context(isa), result));
      const GradientTensors once = run_pairs(shared_context(isa, 1), problem, result, given);
      for (const int threads : {2, 3, 8}) {
        CHECK(same_bits(once, run_pairs(shared_context(isa, threads), problem, result, given)));
      }
      for (const Tensor<float> *tensor : {&once.query, &once.key, &once.value}) {
        for_each_index(tensor->shape(), [&](const Shape &at) {
          REQUIRE_EQ(tensor->at(at), (*tensor)(int64_t{0}, at[1], at[2], at[3]));
        });
      }
    }
  }

  // With a window, too: where a band's first key is depends on who else is in it.
  TEST_CASE("with FOVEA_QUERY_INVARIANT a query's gradient does not depend on how many queries there are") {
    Random random(base_seed());
    for (const int64_t window : {-1, 0, 33, 60}) {
      for (const int64_t fewer : {1, 40, 63, 100}) {
        CAPTURE(window);
        CAPTURE(fewer);
        AttentionProblem problem = make(
            {.heads = 2, .kv_heads = 1, .query_len = 151, .key_len = 300, .head_dim = 20, .value_dim = 12}, random);
        problem.flags = FOVEA_QUERY_INVARIANT | FOVEA_CAUSAL | FOVEA_TOP_LEFT;
        if (window >= 0) problem.flags |= FOVEA_WINDOW_LEFT;
        problem.window_left = window;
        const GradientTensors given = make_gradients(problem, random);
        round_inputs(problem, given);
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          REQUIRE_OK(problem.run(context, result));
          const GradientTensors all = run_pairs(context, problem, result, given), few = unwritten(given);
          const PairCall call(problem, result, few);
          const auto cut = [&](fovea_tensor tensor) {
            tensor.shape[2] = fewer;
            return tensor;
          };
          const fovea_tensor query = cut(call.narrow_query), out = cut(call.forward.out),
                             lse = cut(call.forward.log_sum_exp), grad_out = cut(call.narrow_grad_out),
                             grad_query = cut(call.backward.query);
          fovea_attention_options options = call.forward.options;
          options.log_sum_exp = &lse;
          fovea_attention_gradients gradients{};
          gradients.struct_size = sizeof gradients;
          gradients.out = &grad_out;
          gradients.query = &grad_query;
          REQUIRE_OK(fovea_attention_backward(context, call.score(), &query, &call.narrow_key, &call.narrow_value, &out,
                                              &options, &gradients));
          for_each_index(few.query.shape(), [&](const Shape &at) {
            if (at[2] < fewer) REQUIRE_EQ(few.query.at(at), all.query.at(at));
          });
        });
      }
    }
  }

  TEST_CASE("NaN and infinity behind a mask, a window or a length change nothing") {
    Random random(base_seed());
    for (const float poison : {kNan, kInfinity}) {
      for (const int how : {0, 1, 2, 3}) {
        CAPTURE(poison);
        CAPTURE(how);
        AttentionProblem problem = make({.heads = 2,
                                         .kv_heads = 1,
                                         .query_len = how == 3 ? 1 : 70,
                                         .key_len = 111,
                                         .head_dim = 10,
                                         .value_dim = 12},
                                        random);
        if (how == 0) problem.set_mask([](int64_t, int64_t, int64_t, int64_t j) { return j % 5 != 2; });
        if (how % 2 == 1) problem.flags = FOVEA_CAUSAL | FOVEA_WINDOW_LEFT;
        // Query 0 attends keys 21 to 41; where it is the only one, from 91 on, which makes a pair with 90.
        problem.window_left = how == 3 ? 19 : 20;
        if (how == 2) problem.set_valid_lens({33});
        const auto hidden = [&](int64_t key) {
          if (how == 0) return key % 5 == 2;
          return how == 2 ? key >= 33 : key <= (how == 1 ? 20 : 90);
        };
        const GradientTensors given = make_gradients(problem, random);
        round_inputs(problem, given);
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult result = problem.make_result(false);
          REQUIRE_OK(problem.run(context, result));
          const GradientTensors clean = run_pairs(context, problem, result, given);
          std::vector<float> before[2];
          int n = 0;
          for (const Tensor<float> *tensor : {&problem.key, &problem.value}) {
            before[n++] = tensor->dense();
            tensor->memory().thaw();
            for_each_index(tensor->shape(), [&](const Shape &at) {
              if (hidden(at[2])) tensor->at(at) = poison;
            });
          }
          const GradientTensors spoilt = run_pairs(context, problem, result, given);
          problem.key.memory().thaw();
          problem.key.assign(before[0]);
          problem.value.memory().thaw();
          problem.value.assign(before[1]);
          for (const auto &[a, b] : {std::pair{&clean.query, &spoilt.query}, std::pair{&clean.key, &spoilt.key},
                                     std::pair{&clean.value, &spoilt.value}}) {
            REQUIRE(all_finite(*b));
            const std::vector<float> x = a->dense(), y = b->dense();
            for (size_t i = 0; i < x.size(); ++i) REQUIRE_LE(std::abs(x[i] - y[i]), 1e-5);
          }
        });
      }
    }
  }
}
