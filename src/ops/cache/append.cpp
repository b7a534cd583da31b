// Appending to a cache, narrowed or widened to its type on the way, and attending to what it holds.
#include <algorithm>

#include "ops/attention/attention.hpp"
#include "ops/cache/check.hpp"
#include "ops/tensors/copy.hpp"
#include "ops/tensors/lift.hpp"

namespace fovea {

Status append_kv_cache(const Context *given, fovea_kv_cache *cache, const TensorArgument &key,
                       const TensorArgument &value) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_new_rows(*cache, key, value));
  const fovea_tensor keys = lift_heads(*key);
  const int64_t count = keys.shape[2];
  copy_rows(*context, keys, cached_keys(*cache, cache->length, count));
  copy_rows(*context, lift_heads(*value), cached_values(*cache, cache->length, count));
  cache->length += count;
  return FOVEA_OK;
}

Status attend_kv_cache(const Context *given, const fovea_kv_cache *cache, const fovea_score *score,
                       const fovea_tensor *query, const fovea_tensor *out, const fovea_attention_options *options) {
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_cache_query(*cache, score, query));
  const int32_t rank = query == nullptr ? 4 : std::clamp(query->rank, 2, 4);
  const fovea_tensor key = lower_heads(cached_keys(*cache, 0, cache->length), rank);
  const fovea_tensor value = lower_heads(cached_values(*cache, 0, cache->length), rank);
  return attend(given, {score, query, &key, nullptr, &value, out, options});
}

}  // namespace fovea
