// The checks of key/value caches.
#pragma once

#include "ops/cache/kv_cache.hpp"
#include "ops/tensors/check.hpp"

namespace fovea {

// Keys and values to append, for which there is room.
[[nodiscard]] Status check_new_rows(const fovea_kv_cache &cache, const fovea_tensor *key, const fovea_tensor *value);

// What attention's own checks would blame on a key, which a call over a cache does not have. They see to everything else,
// a query that is missing or of another rank included.
[[nodiscard]] Status check_cache_query(const fovea_kv_cache &cache, const fovea_score *score,
                                       const fovea_tensor *query);

// A sequence number for each sequence.
[[nodiscard]] Status check_source(const fovea_kv_cache &cache, const fovea_tensor *source);

}  // namespace fovea
