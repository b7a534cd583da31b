// The C functions of key/value caches. Those without a status answer as for no cache where even the lookup fails.
#include "ops/cache/kv_cache.hpp"

#include "guard.hpp"

using namespace fovea;

namespace {

template <class Number>
Number number_of(const fovea_kv_cache *cache, Number (*get)(const fovea_kv_cache *)) noexcept {
  Number number = 0;
  guarded([&]() -> Status {
    number = get(cache);
    return FOVEA_OK;
  });
  return number;
}

}  // namespace

fovea_status fovea_kv_cache_create(const fovea_kv_cache_sizes *sizes, fovea_kv_cache **cache) {
  return guarded([&] { return create_kv_cache(sizes, cache); });
}

void fovea_kv_cache_destroy(fovea_kv_cache *cache) {
  guarded([&]() -> Status {
    destroy_kv_cache(cache);
    return FOVEA_OK;
  });
}

fovea_status fovea_kv_cache_append(const fovea_context *context, fovea_kv_cache *cache, const fovea_tensor *key,
                                   const fovea_tensor *value) {
  return guarded([&] { return append_kv_cache(context, cache, key, value); });
}

fovea_status fovea_kv_cache_attend(const fovea_context *context, const fovea_kv_cache *cache, const fovea_score *score,
                                   const fovea_tensor *query, const fovea_tensor *out,
                                   const fovea_attention_options *options) {
  return guarded([&] { return attend_kv_cache(context, cache, score, query, out, options); });
}

fovea_status fovea_kv_cache_truncate(fovea_kv_cache *cache, int64_t length) {
  return guarded([&] { return truncate_kv_cache(cache, length); });
}

fovea_status fovea_kv_cache_reorder(const fovea_context *context, fovea_kv_cache *cache, const fovea_tensor *source) {
  return guarded([&] { return reorder_kv_cache(context, cache, source); });
}

int64_t fovea_kv_cache_length(const fovea_kv_cache *cache) { return number_of(cache, kv_cache_length); }

size_t fovea_kv_cache_size(const fovea_kv_cache *cache) { return number_of(cache, kv_cache_size); }

size_t fovea_kv_cache_saved_size(const fovea_kv_cache *cache) { return number_of(cache, saved_kv_cache_size); }

fovea_status fovea_kv_cache_save(const fovea_kv_cache *cache, void *bytes, size_t size) {
  return guarded([&] { return save_kv_cache(cache, bytes, size); });
}

fovea_status fovea_kv_cache_restore(const void *bytes, size_t size, int64_t capacity, fovea_kv_cache **cache) {
  return guarded([&] { return restore_kv_cache(bytes, size, capacity, cache); });
}
