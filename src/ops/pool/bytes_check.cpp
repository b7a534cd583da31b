// What is refused of bytes that may be a saved sequence: every field is checked before it is used, and the checksum
// last, once the size is known to be right.
#include <cinttypes>
#include <cstring>

#include "ops/pool/bytes.hpp"
#include "ops/pool/check.hpp"
#include "ops/tensors/saved_bytes.hpp"

namespace fovea {
namespace {

Status check_word(const unsigned char *bytes, const char *what, size_t at, int64_t expected) {
  const auto value = static_cast<int64_t>(get_number<uint32_t>(bytes + at));
  if (value == expected) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "bytes have %s %" PRId64 ", expected %" PRId64, what, value, expected);
}

Status check_type(const unsigned char *bytes, const char *what, size_t at, Dtype expected) {
  const auto dtype = static_cast<int32_t>(get_number<uint32_t>(bytes + at));
  if (dtype == static_cast<int32_t>(expected)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "bytes have %s of %s, expected %s (as the pool has)", what, DtypeName(dtype).text,
              DtypeName(static_cast<int32_t>(expected)).text);
}

Status check_sizes(const fovea_kv_pool &pool, const unsigned char *bytes) {
  const struct {
    const char *name;
    size_t at;
    int64_t expected;
  } words[] = {{"layers", SavedAt::layers, pool.layers},
               {"kv_heads", SavedAt::kv_heads, pool.kv_heads},
               {"head_dim", SavedAt::head_dim, pool.head_dim},
               {"value_dim", SavedAt::value_dim, pool.value_dim},
               {"scale_group", SavedAt::scale_group, pool.scale_group}};
  for (const auto &word : words) {
    const auto value = static_cast<int64_t>(get_number<uint32_t>(bytes + word.at));
    if (value == word.expected) continue;
    return fail(FOVEA_BAD_VALUE, "bytes have %s %" PRId64 ", expected %" PRId64 " (as the pool has)", word.name, value,
                word.expected);
  }
  return FOVEA_OK;
}

Status check_positions(const fovea_kv_pool &pool, const SavedHeader &header, size_t size) {
  FOVEA_CHECK(check_range("bytes' ", "length", header.length, 0, largest_length));
  FOVEA_CHECK(check_range("bytes' ", "first position", header.first, 0, header.length));
  int64_t expected = 0;
  if (!saved_size_of(pool, header.length - header.first, &expected)) {
    return fail(FOVEA_BAD_VALUE, "bytes' length is %" PRId64 ", whose rows take more than 2^63 bytes", header.length);
  }
  if (size == static_cast<size_t>(expected)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "size is %zu, expected %" PRId64 " by the positions in bytes", size, expected);
}

}  // namespace

Status check_save(const fovea_kv_pool *pool, int64_t number, const void *bytes, size_t size) {
  FOVEA_CHECK(check_sequence(pool, number));
  const size_t needed = saved_sequence_size(pool, number);
  if (bytes == nullptr) return fail(FOVEA_NULL_POINTER, "bytes is NULL, expected %zu bytes", needed);
  if (size >= needed) return FOVEA_OK;
  return fail(FOVEA_WORKSPACE_TOO_SMALL, "size is %zu, expected at least %zu", size, needed);
}

Status check_saved_sequence(const fovea_kv_pool &pool, const unsigned char *bytes, size_t size, SavedHeader *header) {
  if (size < saved_header_size) {
    return fail(FOVEA_BAD_VALUE, "size is %zu, expected at least %zu, a header", size, saved_header_size);
  }
  if (std::memcmp(bytes, saved_sequence_magic, sizeof saved_sequence_magic) != 0) {
    return fail(FOVEA_BAD_VALUE, "bytes at %p do not begin as a saved sequence does, expected 0x89 and \"foveakp\"",
                static_cast<const void *>(bytes));
  }
  FOVEA_CHECK(check_word(bytes, "version", SavedAt::version, saved_sequence_version));
  FOVEA_CHECK(check_word(bytes, "a reserved word of", SavedAt::reserved_too, 0));
  FOVEA_CHECK(check_type(bytes, "keys", SavedAt::key_dtype, pool.key_dtype));
  FOVEA_CHECK(check_type(bytes, "values", SavedAt::value_dtype, pool.value_dtype));
  FOVEA_CHECK(check_sizes(pool, bytes));
  header->first = static_cast<int64_t>(get_number<uint64_t>(bytes + SavedAt::first));
  header->length = static_cast<int64_t>(get_number<uint64_t>(bytes + SavedAt::length));
  FOVEA_CHECK(check_positions(pool, *header, size));
  const uint32_t written = get_number<uint32_t>(bytes + saved_checksum_at);
  const uint32_t checksum = saved_checksum(bytes, size);
  if (checksum == written) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "bytes have the checksum 0x%08" PRIx32 ", expected 0x%08" PRIx32 ": they were altered",
              checksum, written);
}

}  // namespace fovea
