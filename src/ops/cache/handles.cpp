// Making, measuring and destroying caches.
#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <memory>
#include <new>

#include "ops/cache/kv_cache.hpp"
#include "ops/tensors/check.hpp"
#include "ops/tensors/dtype.hpp"
#include "runtime/memory_layout.hpp"

fovea_kv_cache::~fovea_kv_cache() { std::free(memory); }

namespace fovea {
namespace {

// The block and where its parts lie. What does not depend on the batch or on the capacity has to fit even where these are
// 0: strides and shapes are computed from it.
struct Parts {
  MemoryLayout layout;
  MemoryPart<char> keys, values;
};

Parts lay_out(const fovea_kv_cache &cache, int64_t sequences, int64_t positions) {
  const auto size = static_cast<int64_t>(dtype_size(cache.dtype));
  Parts parts;
  parts.keys = parts.layout.add<char>({positions, cache.head_dim, cache.kv_heads, sequences, size});
  parts.values = parts.layout.add<char>({positions, cache.value_dim, cache.kv_heads, sequences, size});
  return parts;
}

fovea_tensor cached_rows(const fovea_kv_cache &cache, void *rows, int64_t dim, int64_t first, int64_t count) {
  const int64_t shape[] = {cache.batch, cache.kv_heads, count, dim};
  fovea_tensor tensor =
      contiguous_tensor(element_at(rows, cache.dtype, first * dim), static_cast<fovea_dtype>(cache.dtype), 4, shape);
  tensor.strides[1] = cache.capacity * dim;
  tensor.strides[0] = cache.kv_heads * tensor.strides[1];
  return tensor;
}

}  // namespace

fovea_tensor cached_keys(const fovea_kv_cache &cache, int64_t first, int64_t count) {
  return cached_rows(cache, cache.keys, cache.head_dim, first, count);
}

fovea_tensor cached_values(const fovea_kv_cache &cache, int64_t first, int64_t count) {
  return cached_rows(cache, cache.values, cache.value_dim, first, count);
}

Status create_kv_cache(const fovea_kv_cache_sizes *sizes, fovea_kv_cache **cache) {
  FOVEA_CHECK(expect_given(sizes, "sizes", "the sizes of a cache"));
  FOVEA_CHECK(expect_given(cache, "cache", "where to store the cache"));
  fovea_kv_cache_sizes wanted;
  FOVEA_CHECK(read_options("sizes", sizes, &wanted));
  if (wanted.value_dim == 0) wanted.value_dim = wanted.head_dim;
  if (wanted.dtype == 0) wanted.dtype = FOVEA_F32;
  FOVEA_CHECK(check_kv_cache_sizes("sizes.", wanted));
  std::unique_ptr<fovea_kv_cache> made(new (std::nothrow) fovea_kv_cache);
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a cache");
  made->batch = wanted.batch;
  made->kv_heads = wanted.kv_heads;
  made->capacity = wanted.capacity;
  made->head_dim = wanted.head_dim;
  made->value_dim = wanted.value_dim;
  made->dtype = static_cast<Dtype>(wanted.dtype);
  const int64_t sequences = std::max<int64_t>(wanted.batch, 1);
  const int64_t positions = std::max<int64_t>(wanted.capacity, 1);
  if (!lay_out(*made, sequences, positions).layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "capacity is %" PRId64 " for %" PRId64 " x %" PRId64 " heads, too large for the address space",
                wanted.capacity, wanted.batch, wanted.kv_heads);
  }
  const Parts parts = lay_out(*made, wanted.batch, wanted.capacity);
  made->size = parts.layout.size();
  // Pages that no position has reached yet cost nothing: the system gives them at the first touch.
  made->memory = allocate_lines(made->size);
  if (made->memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of a cache", made->size);
  made->keys = parts.keys.in(made->memory);
  made->values = parts.values.in(made->memory);
  *cache = made.release();
  return FOVEA_OK;
}

void destroy_kv_cache(fovea_kv_cache *cache) { delete cache; }

Status truncate_kv_cache(fovea_kv_cache *cache, int64_t length) {
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_range("", "length", length, 0, cache->length));
  cache->length = length;
  return FOVEA_OK;
}

int64_t kv_cache_length(const fovea_kv_cache *cache) { return cache == nullptr ? 0 : cache->length; }

size_t kv_cache_size(const fovea_kv_cache *cache) { return cache == nullptr ? 0 : cache->size; }

}  // namespace fovea
