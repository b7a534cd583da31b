// A good call of fovea_sdpa with every tensor there is, to be spoiled; refused, it leaves its outputs as they were.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "errors.hpp"
#include "support/attention_problem.hpp"

namespace testing {

struct SpoiltSdpa {
  explicit SpoiltSdpa(bool per_query_lens = false) {
    Random random(base_seed());
    problem = make_attention(
        {.batch = 2, .heads = 4, .kv_heads = 2, .query_len = 3, .key_len = 5, .head_dim = 6, .value_dim = 7}, random);
    problem.set_valid_lens(per_query_lens ? std::vector<int64_t>{5, 4, 3, 2, 1, 0} : std::vector<int64_t>{5, 4});
    problem.set_query_offsets({2, 1});
    problem.set_mask([](int64_t, int64_t, int64_t, int64_t) { return true; });
    problem.bias.emplace(problem.score_shape()).fill_normal(random);
    problem.alibi_slopes.emplace(Shape{4}).fill_normal(random);
    problem.sinks.emplace(Shape{4}).fill_normal(random);
    result = problem.make_result();
    arguments.emplace(problem, result);
  }

  fovea_status run() { return fovea_sdpa(nullptr, query, key, value, out, options); }
  fovea_status plan() {
    fovea_plan *const before = reinterpret_cast<fovea_plan *>(this);
    fovea_plan *plan = before;
    const fovea_status status = fovea_sdpa_plan_create(nullptr, query, key, value, out, options, &plan);
    if (status == FOVEA_OK) {
      fovea_plan_destroy(plan);
    } else {
      CHECK(plan == before);
    }
    return status;
  }

  bool outputs_untouched() const {
    return result.out.untouched() && result.log_sum_exp->untouched() && result.weights->untouched();
  }

  AttentionProblem problem;
  AttentionResult result;
  std::optional<AttentionArguments> arguments;
  const fovea_tensor *query = nullptr, *key = nullptr, *value = nullptr, *out = nullptr;
  const fovea_attention_options *options = nullptr;
};

// The arguments live in an optional inside the call, so their addresses are set once the call stands still.
inline void settle(SpoiltSdpa &call) {
  call.query = &call.arguments->query;
  call.key = &call.arguments->key;
  call.value = &call.arguments->value;
  call.out = &call.arguments->out;
  call.options = &call.arguments->options;
}

using Spoil = std::function<void(SpoiltSdpa &)>;

enum class Where { kCallAndPlan, kCallOnly };

inline void refuse(fovea_status expected, std::initializer_list<std::string> words, const Spoil &spoil,
                   Where where = Where::kCallAndPlan, bool per_query_lens = false) {
  SpoiltSdpa call(per_query_lens);
  settle(call);
  spoil(call);
  check_refusal(call.run(), expected, words);
  CHECK(call.outputs_untouched());
  if (where == Where::kCallAndPlan) check_refusal(call.plan(), expected, words);
}

}  // namespace testing
