// Prepared keys for the tests: made for an attention problem and filled from its keys.
#pragma once

#include <fovea/fovea.h>

#include <memory>

#include "attention_problem.hpp"
#include "creation.hpp"

namespace testing {

struct DestroyKeys {
  void operator()(fovea_prepared_keys *keys) const { fovea_prepared_keys_destroy(keys); }
};
using Keys = std::unique_ptr<fovea_prepared_keys, DestroyKeys>;

inline Keys make_keys(const fovea_context *context, const AttentionProblem &problem, int64_t capacity,
                      fovea_dtype dtype = FOVEA_F32) {
  const AttentionSizes &s = problem.sizes;
  const ScoreArguments score(*problem.score);
  problem.score->freeze();
  fovea_prepared_keys *keys = nullptr;
  REQUIRE_OK(prepared_keys_create(context, &score.score, s.batch, s.kv_heads, capacity, s.head_dim, s.key_size(), &keys,
                                  dtype));
  return Keys(keys);
}

inline void append(const fovea_context *context, const Keys &keys, const AttentionProblem &problem, int64_t begin,
                   int64_t end) {
  problem.key.memory().freeze();
  const fovea_tensor part = slice_positions(problem.key, begin, end);
  REQUIRE_OK(fovea_prepared_keys_append(context, keys.get(), &part));
}

inline Keys make_full(const fovea_context *context, const AttentionProblem &problem) {
  Keys keys = make_keys(context, problem, problem.sizes.key_len);
  append(context, keys, problem, 0, problem.sizes.key_len);
  return keys;
}

inline fovea_status attend(const fovea_context *context, const AttentionProblem &problem, const Keys &keys,
                           const AttentionResult &result) {
  const AttentionArguments call(problem, result);
  return fovea_attention_prepared(context, &call.query, keys.get(), &call.value, &call.out, &call.options);
}

inline AttentionProblem make_prepared_problem(int32_t kind, int64_t query_len, int64_t key_len, int64_t hidden = 19) {
  Random random(base_seed());
  return make_scored(kind,
                     {.batch = 2,
                      .heads = 4,
                      .kv_heads = 2,
                      .query_len = query_len,
                      .key_len = key_len,
                      .head_dim = 10,
                      .value_dim = 6,
                      .key_dim = 7},
                     hidden, random);
}

}  // namespace testing
