// Handles made of the sizes and options that tests vary, without a struct at each place.
#pragma once

#include <fovea/fovea.h>

namespace testing {

inline fovea_status linear_pack(const fovea_context *context, const fovea_tensor *weight, int32_t layout,
                                fovea_packed_matrix **packed) {
  const fovea_linear_pack_options options = {sizeof options, layout, 0};
  return fovea_linear_pack(context, weight, &options, packed);
}

inline fovea_status prepared_keys_create(const fovea_context *context, const fovea_score *score, int64_t batch,
                                         int64_t kv_heads, int64_t capacity, int64_t query_dim, int64_t key_dim,
                                         fovea_prepared_keys **keys, fovea_dtype dtype = FOVEA_F32) {
  const fovea_prepared_keys_sizes sizes = {sizeof sizes, batch, kv_heads, capacity, query_dim, key_dim, dtype, 0};
  return fovea_prepared_keys_create(context, score, &sizes, keys);
}

}  // namespace testing
