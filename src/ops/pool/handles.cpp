// Making, measuring and destroying pools.
#include <cinttypes>
#include <cstdlib>
#include <memory>
#include <new>

#include "ops/pool/check.hpp"
#include "ops/tensors/scaled.hpp"
#include "runtime/large_memory.hpp"

fovea_kv_pool::~fovea_kv_pool() { std::free(memory); }

namespace fovea {
namespace {

// Small enough that a short sequence wastes little, and large enough that what is said about a page is little beside
// it. Each sequence can have one.
int64_t choose_page_size(const fovea_kv_pool &pool, int64_t positions, int64_t sequences) {
  constexpr int64_t least_size = 16, least_bytes = 131072;
  const int64_t position_bytes = pool.kv_heads * pool.head_dim * bytes_of(pool.key_dtype);
  int64_t size = least_size;
  while (size * position_bytes < least_bytes && 2 * size <= positions / sequences) size *= 2;
  return size;
}

bool has_layer(const fovea_kv_pool *pool, int64_t layer) {
  return pool != nullptr && layer >= 0 && layer < pool->layers;
}

fovea_tensor no_tensor() { return contiguous_tensor(nullptr, FOVEA_F32, -1, nullptr); }

// The block and where its parts lie.
Status allocate(int64_t pages, fovea_kv_pool *pool) {
  MemoryLayout layer, layout;
  for (PoolStore &store : pool->stores) {
    if (store.dim > 0) store.in_layer = layer.add<char>({pages, pool->kv_heads, pool->page_size, store.row_bytes()});
  }
  if (layer.fits()) pool->layer_parts = layout.add_copies<char>(pool->layers, static_cast<int64_t>(layer.size()));
  if (!layer.fits() || !layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "sizes.positions makes %" PRId64 " pages of %" PRId64 " for %" PRId64 " layers of %" PRId64
                " heads, too large for the address space",
                pages, pool->page_size, pool->layers, pool->kv_heads);
  }
  // Pages that no sequence has reached yet cost nothing: the system gives them at the first touch.
  pool->memory = allocate_large(layout.size());
  if (pool->memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of a pool", layout.size());
  return FOVEA_OK;
}

// Scales of so many features; 0: there are none.
int64_t scale_count(Dtype dtype, int64_t dim, int64_t group) {
  constexpr int64_t usual = 32;
  const auto type = static_cast<fovea_dtype>(dtype);
  if (!is_scaled_type(type)) return 0;
  if (group == 0) group = dim % usual == 0 ? usual : dim;
  return dim / group * paired(type);
}

void set_stores(fovea_kv_pool *pool) {
  pool->stores[pool_keys] = {pool->key_dtype, pool->head_dim};
  const int64_t in_each = paired(static_cast<fovea_dtype>(pool->value_dtype));
  pool->stores[pool_values] = {pool->value_dtype, pool->value_dim / in_each};
  pool->stores[pool_key_scales] = {Dtype::f16, scale_count(pool->key_dtype, pool->head_dim, pool->scale_group)};
  pool->stores[pool_value_scales] = {Dtype::f16, scale_count(pool->value_dtype, pool->value_dim, pool->scale_group)};
}

// All that a step needs but the list of its pages, whose length is known when it comes.
void reserve_tables(size_t sequences, StepTables *step) {
  step->query_starts.reserve(sequences + 1);
  step->key_lens.reserve(sequences);
  step->page_starts.reserve(sequences + 1);
  step->growths.reserve(sequences);
  step->copies.reserve(sequences);
}

}  // namespace

fovea_tensor pool_rows(const fovea_kv_pool &pool, PoolRows which, int64_t layer) {
  const PoolStore &store = pool.stores[which];
  const int64_t shape[] = {pool.pages.count(), pool.kv_heads, pool.page_size, store.dim};
  void *rows = store.in_layer.in(pool.layer_parts.in(pool.memory, layer));
  return contiguous_tensor(rows, static_cast<fovea_dtype>(store.dtype), 4, shape);
}

int64_t pool_row_bytes(const fovea_kv_pool &pool) {
  int64_t bytes = 0;
  for (const PoolStore &store : pool.stores) bytes += store.row_bytes();
  return bytes;
}

Status create_kv_pool(const fovea_kv_pool_sizes *sizes, fovea_kv_pool **pool) {
  FOVEA_CHECK(expect_given(sizes, "sizes", "the sizes of a pool"));
  FOVEA_CHECK(expect_given(pool, "pool", "where to store the pool"));
  fovea_kv_pool_sizes wanted;
  FOVEA_CHECK(read_options("sizes", sizes, &wanted));
  if (wanted.value_dim == 0) wanted.value_dim = wanted.head_dim;
  if (wanted.key_dtype == 0) wanted.key_dtype = FOVEA_F32;
  if (wanted.value_dtype == 0) wanted.value_dtype = wanted.key_dtype;
  FOVEA_CHECK(check_kv_pool_sizes(wanted));
  std::unique_ptr<fovea_kv_pool> made(new (std::nothrow) fovea_kv_pool);
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a pool");
  made->layers = wanted.layers;
  made->kv_heads = wanted.kv_heads;
  made->head_dim = wanted.head_dim;
  made->value_dim = wanted.value_dim;
  made->key_dtype = static_cast<Dtype>(wanted.key_dtype);
  made->value_dtype = static_cast<Dtype>(wanted.value_dtype);
  made->scale_group = wanted.scale_group;
  set_stores(made.get());
  made->page_size =
      wanted.page_size == 0 ? choose_page_size(*made, wanted.positions, wanted.sequences) : wanted.page_size;
  const int64_t pages = ceil_div(wanted.positions, made->page_size);
  FOVEA_CHECK(allocate(pages, made.get()));
  made->pages = Pages(pages);
  made->sequences = Sequences(wanted.sequences);
  reserve_tables(static_cast<size_t>(wanted.sequences), &made->step);
  *pool = made.release();
  return FOVEA_OK;
}

void destroy_kv_pool(fovea_kv_pool *pool) { delete pool; }

fovea_tensor layer_rows(const fovea_kv_pool *pool, PoolRows which, int64_t layer) {
  return has_layer(pool, layer) && pool->stores[which].dim > 0 ? pool_rows(*pool, which, layer) : no_tensor();
}

int64_t free_pages(const fovea_kv_pool *pool) { return pool == nullptr ? 0 : pool->pages.free(); }

size_t kv_pool_size(const fovea_kv_pool *pool) {
  if (pool == nullptr) return 0;
  return static_cast<size_t>(pool->layers * pool->pages.count() * pool->kv_heads * pool->page_size *
                             pool_row_bytes(*pool));
}

}  // namespace fovea
