// Projections that additive and concat attention keeps for its backward pass: what they are, and that results and
// gradients have the bits that they have without them.
#include <doctest/doctest.h>

#include <cmath>

#include "support/accuracy.hpp"
#include "support/attention_plan.hpp"
#include "support/gradient_problem.hpp"
#include "support/kept_projections.hpp"
#include "support/narrow.hpp"

using namespace testing;

namespace {

constexpr int32_t kKinds[] = {FOVEA_SCORE_ADDITIVE, FOVEA_SCORE_CONCAT};

struct Case {
  AttentionSizes sizes;
  int64_t units;
  Layout layout = Layout::kHeadsFirst;
  int rank = 4;
  std::vector<int64_t> valid_lens = {};
  int64_t bias_keys = -1;  // a bias of fewer keys
};

// Few and many queries, units about a register, groups of heads, sequences below and above those whose unattended keys
// are projected, splits of rows and of keys, nothing at all.
const std::vector<Case> &cases() {
  static const std::vector<Case> list = {
      {{.query_len = 1, .key_len = 1, .head_dim = 1, .value_dim = 1}, 1},
      {{.batch = 3, .query_len = 1, .key_len = 9, .head_dim = 5, .value_dim = 3}, 15, Layout::kPadded, 4, {5, 0, 9}},
      {{.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 9, .key_len = 31, .head_dim = 6, .value_dim = 8},
       16,
       Layout::kHeadsLast,
       4,
       {7, 31}},
      {{.batch = 3,
        .heads = 2,
        .kv_heads = 2,
        .query_len = 5,
        .key_len = 100,
        .head_dim = 7,
        .value_dim = 4,
        .key_dim = 9},
       17,
       Layout::kPadded,
       4,
       {0, 33, 100}},
      {{.batch = 2, .query_len = 40, .key_len = 70, .head_dim = 12, .value_dim = 20}, 33, Layout::kPadded, 3, {70, 41}},
      {{.query_len = 66, .key_len = 50, .head_dim = 8, .value_dim = 8}, 20, Layout::kPadded, 2},
      {{.heads = 4, .kv_heads = 2, .query_len = 130, .key_len = 200, .head_dim = 12, .value_dim = 20},
       18,
       Layout::kHeadsLast,
       4,
       {},
       151},
      {{.query_len = 600, .key_len = 700, .head_dim = 8, .value_dim = 8}, 32},
      {{.batch = 2, .query_len = 70, .key_len = 90, .head_dim = 70, .value_dim = 16}, 80},
      {{.batch = 2, .query_len = 3, .key_len = 0, .head_dim = 4, .value_dim = 4}, 5},
      {{.batch = 2, .query_len = 0, .key_len = 6, .head_dim = 4, .value_dim = 4}, 5},
  };
  return list;
}

AttentionProblem make(const Case &one, int32_t kind, Random &random) {
  AttentionProblem problem = make_scored(kind, one.sizes, one.units, random, one.layout, one.rank);
  problem.want_log_sum_exp = true;
  problem.flags = FOVEA_QUERY_INVARIANT;  // else "amx" projects large calls on tiles, forwards alone
  if (!one.valid_lens.empty()) problem.set_valid_lens(one.valid_lens);
  if (one.bias_keys >= 0) problem.bias.emplace(Shape{one.sizes.query_len, one.bias_keys}).fill_normal(random);
  return problem;
}

template <typename Body>
void for_each_case(Body body) {
  Random random(base_seed());
  for (const Case &one : cases()) {
    for (const int32_t kind : kKinds) {
      AttentionProblem problem = make(one, kind, random);
      const std::string what = problem.describe();
      CAPTURE(what);
      body(problem, random);
    }
  }
}

// Keys from here on are attended by no query of the entry.
int64_t attended_keys(const AttentionProblem &problem, int64_t batch) {
  if (problem.sizes.query_len == 0) return 0;
  const int64_t limit = problem.bias ? problem.bias->shape().back() : problem.sizes.key_len;
  return problem.valid_lens32 ? std::min<int64_t>(limit, (*problem.valid_lens32)(batch)) : limit;
}

int64_t batch_of(const AttentionProblem &problem, const Shape &at) { return problem.rank == 2 ? 0 : at[0]; }

// Sums in one order of float32 and of float64, rows times a weight's columns from `first` on.
template <typename Number>
std::vector<Number> projected(const Tensor<float> &rows, const Tensor<float> &weight, int64_t first,
                              const Tensor<float> *bias, int64_t units) {
  std::vector<Number> all;
  Shape shape = rows.shape();
  const int64_t dim = shape.back();
  shape.back() = units;
  for_each_index(shape, [&](const Shape &at) {
    Shape from = at;
    Number sum = bias == nullptr ? Number(0) : Number((*bias)(at.back()));
    for (int64_t d = 0; d < dim; ++d) {
      from.back() = d;
      sum += Number(rows.at(from)) * Number(weight(at.back(), first + d));
    }
    all.push_back(sum);
  });
  return all;
}

}  // namespace

TEST_SUITE("kept projections") {
  TEST_CASE("what is kept: the projections, of concat the bias with the queries; unattended keys stay as they were") {
    for_each_case([&](const AttentionProblem &problem, Random &) {
      const ScoreFunction &score = *problem.score;
      const int64_t units = score.score_vector->shape()[0];
      const bool additive = score.kind == FOVEA_SCORE_ADDITIVE;
      const Tensor<float> &query_weight = additive ? *score.query_weight : *score.weight;
      const Tensor<float> &key_weight = additive ? *score.key_weight : *score.weight;
      const Tensor<float> *bias = score.bias ? &*score.bias : nullptr;
      const int64_t first = additive ? 0 : problem.sizes.head_dim;
      const auto queries = [&]<typename Number>(Number) {
        return projected<Number>(problem.query, query_weight, 0, bias, units);
      };
      const auto keys = [&]<typename Number>(Number) {
        return projected<Number>(problem.key, key_weight, first, nullptr, units);
      };
      for_each_isa([&](const fovea_context *context) {
        const KeptProjections kept(problem);
        const AttentionResult result = problem.make_result(false);
        REQUIRE_OK(kept.attend(context, problem, result));
        CHECK(kept.query.gaps_untouched());
        CHECK(kept.key.gaps_untouched());
        const double roundings = 4 * kEpsilon * 16;  // of sums of some units
        CHECK_ACCURATE(kept.query.dense(), queries(0.0), queries(0.0f), roundings);
        std::vector<float> actual, plain;
        std::vector<double> truth;
        const std::vector<double> all = keys(0.0);
        const std::vector<float> all_plain = keys(0.0f);
        const KeptProjections fresh(problem);
        size_t next = 0, wrong = 0;
        for_each_index(kept.key.shape(), [&](const Shape &at) {
          if (at[at.size() - 2] < attended_keys(problem, batch_of(problem, at))) {
            actual.push_back(kept.key.at(at));
            truth.push_back(all[next]);
            plain.push_back(all_plain[next]);
          } else {
            wrong += kept.key.at(at) != fresh.key.at(at);
          }
          ++next;
        });
        CHECK_ACCURATE(actual, truth, plain, roundings);
        CHECK_EQ(wrong, 0u);
      });
    });
  }

  TEST_CASE("the same bits with both, one or none of them, for any number of threads") {
    for_each_case([&](AttentionProblem &problem, Random &random) {
      const GradientTensors given = make_gradients(problem, random);
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const AttentionResult without = problem.make_result(false);
        REQUIRE_OK(problem.run(shared_context(isa, 1), without));
        const GradientTensors gradients = unwritten(given);
        REQUIRE_OK(run_backward(shared_context(isa, 1), problem, without, gradients));
        const KeptProjections first(problem);
        REQUIRE_OK(first.attend(shared_context(isa, 1), problem, problem.make_result(false)));
        for (const int threads : {1, 2, 3, 8}) {
          CAPTURE(threads);
          for (const Kept which : {Kept::both, Kept::query, Kept::key}) {
            const KeptProjections kept(problem, which);
            const AttentionResult result = problem.make_result(false);
            REQUIRE_OK(kept.attend(shared_context(isa, threads), problem, result));
            CHECK(same_bits(without, result));
            if (which != Kept::key) CHECK(same_bits(first.query, kept.query));
            if (which != Kept::query) CHECK(same_bits(first.key, kept.key));
            kept.poison_unattended(
                [&](const Shape &at) { return at[at.size() - 2] >= attended_keys(problem, batch_of(problem, at)); });
            const GradientTensors others = unwritten(given);
            REQUIRE_OK(kept.go_back(shared_context(isa, threads), problem, result, others));
            CHECK(same_bits(gradients, others));
          }
        }
      }
    });
  }

  // On tiles sums are taken in another order, forwards alone.
  TEST_CASE("many rows without FOVEA_QUERY_INVARIANT") {
    Random random(base_seed());
    for (const int32_t kind : kKinds) {
      AttentionProblem problem = make(cases()[8], kind, random);
      problem.flags = 0;
      const GradientTensors given = make_gradients(problem, random);
      for (const std::string &isa : instruction_sets()) {
        CAPTURE(isa);
        const fovea_context *const context = shared_context(isa);
        const AttentionResult without = problem.make_result(false), result = problem.make_result(false);
        const GradientTensors gradients = unwritten(given), others = unwritten(given);
        const KeptProjections kept(problem);
        REQUIRE_OK(problem.run(context, without));
        REQUIRE_OK(kept.attend(context, problem, result));
        CHECK(same_bits(without, result));
        REQUIRE_OK(run_backward(context, problem, without, gradients));
        REQUIRE_OK(kept.go_back(context, problem, result, others));
        judge_gradients(problem, given, others);
        if (isa != "amx") CHECK(same_bits(gradients, others));
      }
    }
  }

  // Weights and scores are passes of their own, and scores are of all keys.
  TEST_CASE("beside returned weights and scores") {
    Random random(base_seed());
    for (const int32_t kind : kKinds) {
      const AttentionProblem problem = make(cases()[3], kind, random);
      for_each_isa([&](const fovea_context *context) {
        const KeptProjections alone(problem), beside(problem);
        const Tensor<float> scores(problem.score_shape());
        const AttentionResult result = problem.make_result(false), with_weights = problem.make_result(true);
        REQUIRE_OK(alone.attend(context, problem, result));
        AttentionArguments arguments(problem, with_weights);
        const KeptArguments its(beside, arguments.options);
        const fovea_tensor view = scores.view();
        arguments.options.scores = &view;
        REQUIRE_OK(arguments.run(context));
        CHECK(same_bits(alone.query, beside.query));
        CHECK(same_bits(alone.key, beside.key));
        CHECK(same_bits(result.out, with_weights.out));
      });
    }
  }

  TEST_CASE("what is given is read, not made again") {
    Random random(base_seed());
    for (const int32_t kind : kKinds) {
      AttentionProblem problem = make(cases()[2], kind, random);
      const GradientTensors given = make_gradients(problem, random);
      for_each_isa([&](const fovea_context *context) {
        for (const Kept which : {Kept::query, Kept::key}) {
          KeptProjections kept(problem, which);
          const AttentionResult result = problem.make_result(false);
          REQUIRE_OK(kept.attend(context, problem, result));
          const GradientTensors before = unwritten(given), after = unwritten(given);
          REQUIRE_OK(kept.go_back(context, problem, result, before));
          (which == Kept::query ? kept.query : kept.key).fill_normal(random);
          REQUIRE_OK(kept.go_back(context, problem, result, after));
          CHECK(!same_bits(before.query, after.query));
          CHECK(!same_bits(before.key, after.key));
        }
      });
    }
  }

  TEST_CASE("one row for all entries, given with strides of 0") {
    Random random(base_seed());
    for (const int32_t kind : kKinds) {
      AttentionProblem problem =
          make({{.batch = 2, .query_len = 6, .key_len = 40, .head_dim = 5, .value_dim = 4}, 7}, kind, random);
      for (const Tensor<float> *rows : {&problem.query, &problem.key}) {
        rows->memory().thaw();
        for_each_index(rows->shape(), [&](const Shape &at) { rows->at(at) = rows->at({0, 0, 0, at[3]}); });
      }
      const GradientTensors given = make_gradients(problem, random);
      for_each_isa([&](const fovea_context *context) {
        const KeptProjections kept(problem);
        const AttentionResult result = problem.make_result(false);
        REQUIRE_OK(kept.attend(context, problem, result));
        const GradientTensors all = unwritten(given), one = unwritten(given);
        REQUIRE_OK(kept.go_back(context, problem, result, all));
        AttentionArguments forward(problem, result);
        KeptArguments its(kept, forward.options);
        for (fovea_tensor *tensor : {&its.query, &its.key}) std::fill(tensor->strides, tensor->strides + 3, 0);
        const GradientArguments backward(one);
        REQUIRE_OK(fovea_attention_backward(context, &forward.score->score, &forward.query, &forward.key,
                                            &forward.value, &forward.out, &forward.options, &backward.gradients));
        CHECK(same_bits(all, one));
      });
    }
  }

  TEST_CASE("queries, keys and weights of 16 bits") {
    Random random(base_seed());
    for (const int32_t kind : kKinds) {
      for (const fovea_dtype dtype : {FOVEA_F16, FOVEA_BF16}) {
        CAPTURE(dtype);
        AttentionProblem problem =
            make({{.batch = 2, .query_len = 37, .key_len = 60, .head_dim = 14, .value_dim = 10}, 18}, kind, random);
        const GradientTensors given = make_gradients(problem, random);
        for_each_isa([&](const fovea_context *context) {
          const AttentionResult results[] = {problem.make_result(false), problem.make_result(false)};
          const GradientTensors gradients[] = {unwritten(given), unwritten(given)};
          const KeptProjections kept(problem);
          const NarrowTensor query(problem.query, dtype), key(problem.key, dtype),
              vector(*problem.score->score_vector, dtype);
          for (const bool keeps : {false, true}) {
            AttentionArguments forward(problem, results[keeps]);
            const KeptArguments its(kept, forward.options);
            if (!keeps) forward.options.projected_query = forward.options.projected_key = nullptr;
            forward.query = query.view();
            forward.key = key.view();
            forward.score->score_vector = vector.view();
            REQUIRE_OK(forward.run(context));
            const GradientArguments backward(gradients[keeps]);
            REQUIRE_OK(fovea_attention_backward(context, &forward.score->score, &forward.query, &forward.key,
                                                &forward.value, &forward.out, &forward.options, &backward.gradients));
          }
          CHECK(same_bits(results[0], results[1]));
          CHECK(same_bits(gradients[0], gradients[1]));
        });
      }
    }
  }

  // Units of any size, and none: tangents, exponentials, units as they are.
  TEST_CASE("units that are small, large, infinite and NaN") {
    Random random(base_seed());
    for (const int32_t kind : kKinds) {
      AttentionProblem problem = make({{.batch = 2, .query_len = 20, .key_len = 90, .head_dim = 3, .value_dim = 4},
                                       40,
                                       Layout::kPadded,
                                       4,
                                       {90, 60}},
                                      kind, random);
      const float factors[] = {0.01f, 1.0f, 20.0f, 1e30f, kInfinity, kNan, 0.0f};
      for (const Tensor<float> *rows : {&problem.query, &problem.key}) {
        rows->memory().thaw();
        for_each_index(rows->shape(), [&](const Shape &at) { rows->at(at) *= factors[at[2] % 7]; });
      }
      const GradientTensors given = make_gradients(problem, random);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult results[] = {problem.make_result(false), problem.make_result(false)};
        const GradientTensors gradients[] = {unwritten(given), unwritten(given)};
        const KeptProjections kept(problem);
        REQUIRE_OK(problem.run(context, results[0]));
        REQUIRE_OK(kept.attend(context, problem, results[1]));
        CHECK(same_bits(results[0], results[1]));
        REQUIRE_OK(run_backward(context, problem, results[0], gradients[0]));
        REQUIRE_OK(kept.go_back(context, problem, results[1], gradients[1]));
        CHECK(same_bits(gradients[0], gradients[1]));
      });
    }
  }

  TEST_CASE("planned: forwards and backwards, in no more memory, and the plans say so") {
    for_each_case([&](AttentionProblem &problem, Random &random) {
      const GradientTensors given = make_gradients(problem, random);
      for_each_isa([&](const fovea_context *context) {
        const AttentionResult without = problem.make_result(false), result = problem.make_result(false);
        REQUIRE_OK(problem.run(context, without));
        const KeptProjections once(problem), kept(problem);
        REQUIRE_OK(once.attend(context, problem, problem.make_result(false)));
        const AttentionPlan plain(context, problem, result);
        AttentionArguments forward(problem, result);
        const KeptArguments its(kept, forward.options);
        fovea_plan *raw = nullptr;
        REQUIRE_OK(forward.plan(context, &raw));
        const AttentionPlan plan(raw);
        CHECK_EQ(plan.workspace().size(), plain.workspace().size());
        if (without.out.count() > 0) CHECK(plan.describe().find(" keeps=query,key ") != std::string::npos);
        const GradientTensors gradients = unwritten(given), others = unwritten(given);
        REQUIRE_OK(run_backward(context, problem, without, gradients));
        const GradientArguments backward(others);
        fovea_attention_buffers buffers = buffers_of(forward);
        buffers.projected_query = its.query.data;
        buffers.projected_key = its.key.data;
        REQUIRE_OK(plan.run(buffers));
        CHECK(same_bits(without, result));
        CHECK(same_bits(once.query, kept.query));
        CHECK(same_bits(once.key, kept.key));
        const auto plan_backward = [&](const fovea_attention_options &options) {
          fovea_plan *made = nullptr;
          REQUIRE_OK(fovea_attention_backward_plan_create(context, &forward.score->score, &forward.query, &forward.key,
                                                          &forward.value, &forward.out, &options, &backward.gradients,
                                                          &made));
          return AttentionPlan(made);
        };
        fovea_attention_options none = forward.options;
        none.projected_query = none.projected_key = nullptr;
        const AttentionPlan going_back = plan_backward(forward.options), projecting = plan_backward(none);
        CHECK_LE(going_back.workspace().size(), projecting.workspace().size());
        CHECK(going_back.describe().find(" kept=query,key ") != std::string::npos);
        CHECK(projecting.describe().find(" kept=") == std::string::npos);
        buffers = buffers_of(forward, backward);
        buffers.projected_query = its.query.data;
        buffers.projected_key = its.key.data;
        REQUIRE_OK(going_back.run(buffers));
        CHECK(same_bits(gradients, others));
      });
    });
  }
}
