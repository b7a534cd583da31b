// A sequence as bytes. All numbers are little-endian:
//
//   offset  bytes
//        0      8  magic: 0x89 "foveakp"; the first byte is no text, so that a text-mode transfer shows
//        8      4  version of this format, 1
//       12   2x 4  element types of keys and of values: as fovea_dtype has them
//       20   4x 4  layers, kv_heads, head_dim, value_dim
//       36      4  features that share a scale, as the pool was made with
//       40   2x 8  the first position that is kept, the length
//       56      4  0
//       60      4  CRC-32C of the 60 bytes before it and all bytes after it
//       64         keys [layers][kv_heads][kept][head_dim], then values [layers][kv_heads][kept][value_dim], of those
//                  types (of 4 bits: value_dim / 2 bytes), for positions from the first that is kept to the last; then
//                  likewise the scales of keys of 8 bits, and of values of 8 or 4
#pragma once

#include "ops/pool/pool.hpp"

namespace fovea {

constexpr unsigned char saved_sequence_magic[8] = {0x89, 'f', 'o', 'v', 'e', 'a', 'k', 'p'};
constexpr uint32_t saved_sequence_version = 1;

// Where the words of a header lie.
struct SavedAt {
  static constexpr size_t version = 8, key_dtype = 12, value_dtype = 16, layers = 20, kv_heads = 24, head_dim = 28,
                          value_dim = 32, scale_group = 36, first = 40, length = 48, reserved_too = 56;
};

// Header and rows of so many positions of a pool; false on overflow.
[[nodiscard]] bool saved_size_of(const fovea_kv_pool &pool, int64_t positions, int64_t *size);

// There are a pool, a sequence, and room for it.
[[nodiscard]] Status check_save(const fovea_kv_pool *pool, int64_t number, const void *bytes, size_t size);

// There are bytes of a sequence that fits the pool; its first position and its length are in *header. Of the pool's
// room nothing is said.
struct SavedHeader {
  int64_t first, length;
};
[[nodiscard]] Status check_saved_sequence(const fovea_kv_pool &pool, const unsigned char *bytes, size_t size,
                                          SavedHeader *header);

}  // namespace fovea
