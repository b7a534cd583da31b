// The C functions of key/value pools. Those without a status answer as for no pool where even the lookup fails.
#include "ops/pool/pool.hpp"

#include "guard.hpp"

using namespace fovea;

namespace {

// What get() gives, or the second where it throws.
template <class Value, class Get>
Value value_of(const Get &get, Value value) noexcept {
  guarded([&]() -> Status {
    value = get();
    return FOVEA_OK;
  });
  return value;
}

}  // namespace

fovea_status fovea_kv_pool_create(const fovea_kv_pool_sizes *sizes, fovea_kv_pool **pool) {
  return guarded([&] { return create_kv_pool(sizes, pool); });
}

void fovea_kv_pool_destroy(fovea_kv_pool *pool) {
  guarded([&]() -> Status {
    destroy_kv_pool(pool);
    return FOVEA_OK;
  });
}

fovea_status fovea_kv_pool_open(fovea_kv_pool *pool, int64_t *sequence) {
  return guarded([&] { return open_sequence(pool, sequence); });
}

fovea_status fovea_kv_pool_fork(fovea_kv_pool *pool, int64_t sequence, int64_t length, int64_t *forked) {
  return guarded([&] { return fork_sequence(pool, sequence, length, forked); });
}

fovea_status fovea_kv_pool_truncate(fovea_kv_pool *pool, int64_t sequence, int64_t length) {
  return guarded([&] { return truncate_sequence(pool, sequence, length); });
}

fovea_status fovea_kv_pool_drop(fovea_kv_pool *pool, int64_t sequence, int64_t first) {
  return guarded([&] { return drop_positions(pool, sequence, first); });
}

fovea_status fovea_kv_pool_close(fovea_kv_pool *pool, int64_t sequence) {
  return guarded([&] { return close_sequence(pool, sequence); });
}

fovea_status fovea_kv_pool_step(const fovea_context *context, fovea_kv_pool *pool, const fovea_tensor *sequences,
                                const fovea_tensor *tokens, fovea_step *step) {
  return guarded([&] { return step_kv_pool(context, pool, sequences, tokens, step); });
}

fovea_tensor fovea_kv_pool_keys(const fovea_kv_pool *pool, int64_t layer) {
  return value_of([&] { return layer_rows(pool, pool_keys, layer); },
                  contiguous_tensor(nullptr, FOVEA_F32, -1, nullptr));
}

fovea_tensor fovea_kv_pool_values(const fovea_kv_pool *pool, int64_t layer) {
  return value_of([&] { return layer_rows(pool, pool_values, layer); },
                  contiguous_tensor(nullptr, FOVEA_F32, -1, nullptr));
}

fovea_tensor fovea_kv_pool_key_scales(const fovea_kv_pool *pool, int64_t layer) {
  return value_of([&] { return layer_rows(pool, pool_key_scales, layer); },
                  contiguous_tensor(nullptr, FOVEA_F32, -1, nullptr));
}

fovea_tensor fovea_kv_pool_value_scales(const fovea_kv_pool *pool, int64_t layer) {
  return value_of([&] { return layer_rows(pool, pool_value_scales, layer); },
                  contiguous_tensor(nullptr, FOVEA_F32, -1, nullptr));
}

int64_t fovea_kv_pool_length(const fovea_kv_pool *pool, int64_t sequence) {
  return value_of([&] { return sequence_length(pool, sequence); }, int64_t{-1});
}

int64_t fovea_kv_pool_free_pages(const fovea_kv_pool *pool) {
  return value_of([&] { return free_pages(pool); }, int64_t{0});
}

size_t fovea_kv_pool_size(const fovea_kv_pool *pool) {
  return value_of([&] { return kv_pool_size(pool); }, size_t{0});
}

size_t fovea_kv_pool_saved_size(const fovea_kv_pool *pool, int64_t sequence) {
  return value_of([&] { return saved_sequence_size(pool, sequence); }, size_t{0});
}

fovea_status fovea_kv_pool_save(const fovea_kv_pool *pool, int64_t sequence, void *bytes, size_t size) {
  return guarded([&] { return save_sequence(pool, sequence, bytes, size); });
}

fovea_status fovea_kv_pool_restore(fovea_kv_pool *pool, const void *bytes, size_t size, int64_t *sequence) {
  return guarded([&] { return restore_sequence(pool, bytes, size, sequence); });
}
