// Key/value caches for the tests: made for an attention problem and filled from its keys and values.
#pragma once

#include <fovea/fovea.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "attention_problem.hpp"

namespace testing {

struct DestroyKvCache {
  void operator()(fovea_kv_cache *cache) const { fovea_kv_cache_destroy(cache); }
};
using KvCache = std::unique_ptr<fovea_kv_cache, DestroyKvCache>;

inline fovea_kv_cache_sizes cache_sizes(const AttentionProblem &problem, int64_t capacity,
                                        fovea_dtype dtype = FOVEA_F32) {
  const AttentionSizes &s = problem.sizes;
  return {sizeof(fovea_kv_cache_sizes), s.batch, s.kv_heads, capacity, s.key_size(), s.value_dim, dtype, 0};
}

inline KvCache make_cache(const AttentionProblem &problem, int64_t capacity, fovea_dtype dtype = FOVEA_F32) {
  const fovea_kv_cache_sizes sizes = cache_sizes(problem, capacity, dtype);
  fovea_kv_cache *cache = nullptr;
  REQUIRE_OK(fovea_kv_cache_create(&sizes, &cache));
  return KvCache(cache);
}

inline void append(const fovea_context *context, const KvCache &cache, const AttentionProblem &problem, int64_t begin,
                   int64_t end) {
  problem.key.memory().freeze();
  problem.value.memory().freeze();
  const fovea_tensor key = slice_positions(problem.key, begin, end), value = slice_positions(problem.value, begin, end);
  REQUIRE_OK(fovea_kv_cache_append(context, cache.get(), &key, &value));
}

// Holds all of the problem's keys and values, appended in steps.
inline KvCache make_full_cache(const fovea_context *context, const AttentionProblem &problem, int64_t step = INT64_MAX,
                               int64_t room = 0) {
  const int64_t key_len = problem.sizes.key_len;
  KvCache cache = make_cache(problem, key_len + room);
  for (int64_t begin = 0; begin < key_len;) {
    const int64_t end = begin + std::min(step, key_len - begin);
    append(context, cache, problem, begin, end);
    begin = end;
  }
  return cache;
}

inline fovea_status attend(const fovea_context *context, const AttentionProblem &problem, const KvCache &cache,
                           const AttentionResult &result) {
  problem.query.memory().freeze();
  const AttentionArguments call(problem, result);
  return fovea_kv_cache_attend(context, cache.get(), call.score ? &call.score->score : nullptr, &call.query, &call.out,
                               &call.options);
}

// The bits of the call that is given keys and values as tensors.
inline void check_same(const fovea_context *context, const AttentionProblem &problem, const KvCache &cache) {
  const std::string what = problem.describe();
  CAPTURE(what);
  REQUIRE(fovea_kv_cache_length(cache.get()) == problem.sizes.key_len);
  for (bool weights : {false, true}) {
    CAPTURE(weights);
    const AttentionResult cached = problem.make_result(weights), plain = problem.make_result(weights);
    REQUIRE_OK(attend(context, problem, cache, cached));
    REQUIRE_OK(problem.run(context, plain));
    CHECK(same_bits(cached, plain));
    CHECK(cached.out.gaps_untouched());
  }
}

inline std::vector<unsigned char> save(const KvCache &cache) {
  std::vector<unsigned char> bytes(fovea_kv_cache_saved_size(cache.get()));
  REQUIRE_OK(fovea_kv_cache_save(cache.get(), bytes.data(), bytes.size()));
  return bytes;
}

inline constexpr size_t kSavedHeader = 64;

// What the cache holds: keys, then values, [B][Hkv][length][dim].
inline std::vector<float> contents(const KvCache &cache) {
  const std::vector<unsigned char> bytes = save(cache);
  std::vector<float> floats((bytes.size() - kSavedHeader) / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data() + kSavedHeader, floats.size() * sizeof(float));
  return floats;
}

}  // namespace testing
