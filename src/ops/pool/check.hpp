// The checks of key/value pools.
#pragma once

#include "ops/pool/pool.hpp"
#include "ops/tensors/check.hpp"

namespace fovea {

// There is a pool.
[[nodiscard]] Status check_kv_pool(const fovea_kv_pool *pool);

// Each size is in its range, but for a page_size of 0, which is none yet; a value_dim or type of 0 is none.
[[nodiscard]] Status check_kv_pool_sizes(const fovea_kv_pool_sizes &sizes);

// There is a pool, and the number is that of a sequence in it.
[[nodiscard]] Status check_sequence(const fovea_kv_pool *pool, int64_t number);

// The length is one that the sequence may be cut to.
[[nodiscard]] Status check_kept_length(const Sequence &sequence, int64_t length);

// Another sequence can be opened.
[[nodiscard]] Status check_sequence_room(const fovea_kv_pool &pool);

// So many pages can be taken; `user` is what needs them, in a message.
[[nodiscard]] Status check_page_room(const fovea_kv_pool &pool, const char *user, int64_t needed);

// What a step is called with. Numbers are read once, into pool.step.growths.
[[nodiscard]] Status check_step(fovea_kv_pool *pool, const fovea_tensor *sequences, const fovea_tensor *tokens,
                                const fovea_step *step);

}  // namespace fovea
