// Keys and values kept from step to step: [batch][kv_head][capacity][dim] of float32, float16 or bfloat16, rows that
// the attention kernels read where they lie.
#pragma once

#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "status.hpp"
#include "types.hpp"

struct fovea_kv_cache {
  int64_t batch = 0, kv_heads = 0, capacity = 0, length = 0;
  int64_t head_dim = 0, value_dim = 0;
  fovea::Dtype dtype = fovea::Dtype::f32;
  size_t size = 0;         // bytes
  void *memory = nullptr;  // holds keys and values
  void *keys = nullptr;
  void *values = nullptr;

  fovea_kv_cache() = default;
  fovea_kv_cache(const fovea_kv_cache &) = delete;
  fovea_kv_cache &operator=(const fovea_kv_cache &) = delete;
  ~fovea_kv_cache();
};

namespace fovea {

// There is a cache.
[[nodiscard]] Status check_kv_cache(const fovea_kv_cache *cache);

// There is room for `count` more positions.
[[nodiscard]] Status check_room(const fovea_kv_cache &cache, int64_t count);

// Each size is in its range; `where` is what they are members of, in a message. A value_dim or dtype of 0 is none of them.
[[nodiscard]] Status check_kv_cache_sizes(const char *where, const fovea_kv_cache_sizes &sizes);

// Positions [first, first + count) of the keys, or of the values, as [B,Hkv,count,dim].
fovea_tensor cached_keys(const fovea_kv_cache &cache, int64_t first, int64_t count);
fovea_tensor cached_values(const fovea_kv_cache &cache, int64_t first, int64_t count);

[[nodiscard]] Status create_kv_cache(const fovea_kv_cache_sizes *sizes, fovea_kv_cache **cache);
void destroy_kv_cache(fovea_kv_cache *cache);
[[nodiscard]] Status append_kv_cache(const Context *given, fovea_kv_cache *cache, const TensorArgument &key,
                                     const TensorArgument &value);
[[nodiscard]] Status attend_kv_cache(const Context *given, const fovea_kv_cache *cache, const fovea_score *score,
                                     const fovea_tensor *query, const fovea_tensor *out,
                                     const fovea_attention_options *options);
[[nodiscard]] Status truncate_kv_cache(fovea_kv_cache *cache, int64_t length);
[[nodiscard]] Status reorder_kv_cache(const Context *given, fovea_kv_cache *cache, const TensorArgument &source);

// 0 for what is no cache.
int64_t kv_cache_length(const fovea_kv_cache *cache);
size_t kv_cache_size(const fovea_kv_cache *cache);
size_t saved_kv_cache_size(const fovea_kv_cache *cache);

[[nodiscard]] Status save_kv_cache(const fovea_kv_cache *cache, void *bytes, size_t size);
[[nodiscard]] Status restore_kv_cache(const void *bytes, size_t size, int64_t capacity, fovea_kv_cache **cache);

}  // namespace fovea
