// A cache as bytes, for a file or another machine. All numbers are little-endian:
//
//   offset  bytes
//        0      8  magic: 0x89 "foveakv"; the first byte is no text, so that a text-mode transfer shows
//        8      4  version of this format, 1
//       12      4  element type: FOVEA_F32, FOVEA_F16 or FOVEA_BF16
//       16   4x 8  batch, kv_heads, capacity, length
//       48   2x 4  head_dim, value_dim
//       56      4  0
//       60      4  CRC-32C of the 60 bytes before it and all bytes after it
//       64         keys [batch][kv_heads][length][head_dim], then values [batch][kv_heads][length][value_dim], of that
//                  type
#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "ops/cache/kv_cache.hpp"
#include "ops/tensors/check.hpp"
#include "ops/tensors/saved_bytes.hpp"

namespace fovea {
namespace {

constexpr unsigned char magic[8] = {0x89, 'f', 'o', 'v', 'e', 'a', 'k', 'v'};
constexpr uint32_t version = 1;

struct Header {
  uint32_t version, reserved, checksum;
  int64_t length;
  fovea_kv_cache_sizes sizes;
};

// Calls visit(elements, bytes) for the runs of a cache, in the order in which they are saved.
template <class Visit>
void for_each_run(const fovea_kv_cache &cache, const Visit &visit) {
  if (cache.length == 0) return;  // sizes that hold nothing may be huge
  for (const fovea_tensor &rows : {cached_keys(cache, 0, cache.length), cached_values(cache, 0, cache.length)}) {
    const size_t size = static_cast<size_t>(cache.length * rows.shape[3]) * dtype_size(cache.dtype);
    for (int64_t head = 0; head < cache.batch * cache.kv_heads; ++head) {
      visit(element_at(rows.data, cache.dtype, head * rows.strides[1]), size);
    }
  }
}

// Header and payload in bytes; false on overflow.
bool total_size(const fovea_kv_cache_sizes &sizes, int64_t length, int64_t *size) {
  return checked_multiply(sizes.batch, sizes.kv_heads, size) && checked_multiply(*size, length, size) &&
         checked_multiply(*size, sizes.head_dim + sizes.value_dim, size) &&
         checked_multiply(*size, static_cast<int64_t>(dtype_size(static_cast<Dtype>(sizes.dtype))), size) &&
         checked_add(*size, saved_header_size, size);
}

fovea_kv_cache_sizes sizes_of(const fovea_kv_cache &cache) {
  return {.struct_size = sizeof(fovea_kv_cache_sizes),
          .batch = cache.batch,
          .kv_heads = cache.kv_heads,
          .capacity = cache.capacity,
          .head_dim = cache.head_dim,
          .value_dim = cache.value_dim,
          .dtype = static_cast<fovea_dtype>(cache.dtype),
          .reserved = 0};
}

void put_header(const fovea_kv_cache &cache, unsigned char *bytes) {
  std::memcpy(bytes, magic, sizeof magic);
  put_number(version, bytes + 8);
  put_number(static_cast<uint32_t>(cache.dtype), bytes + 12);
  put_number(static_cast<uint64_t>(cache.batch), bytes + 16);
  put_number(static_cast<uint64_t>(cache.kv_heads), bytes + 24);
  put_number(static_cast<uint64_t>(cache.capacity), bytes + 32);
  put_number(static_cast<uint64_t>(cache.length), bytes + 40);
  put_number(static_cast<uint32_t>(cache.head_dim), bytes + 48);
  put_number(static_cast<uint32_t>(cache.value_dim), bytes + 52);
  put_number(uint32_t{0}, bytes + 56);
}

Header get_header(const unsigned char *bytes) {
  const auto long_at = [&](size_t at) { return static_cast<int64_t>(get_number<uint64_t>(bytes + at)); };
  const auto word_at = [&](size_t at) { return get_number<uint32_t>(bytes + at); };
  return {.version = word_at(8),
          .reserved = word_at(56),
          .checksum = word_at(saved_checksum_at),
          .length = long_at(40),
          .sizes = {.struct_size = sizeof(fovea_kv_cache_sizes),
                    .batch = long_at(16),
                    .kv_heads = long_at(24),
                    .capacity = long_at(32),
                    .head_dim = word_at(48),
                    .value_dim = word_at(52),
                    .dtype = static_cast<fovea_dtype>(word_at(12)),
                    .reserved = 0}};
}

Status check_word(const char *what, uint32_t value, uint32_t expected) {
  if (value == expected) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "bytes have %s %" PRIu32 ", expected %" PRIu32, what, value, expected);
}

Status check_header(const Header &header, size_t size) {
  FOVEA_CHECK(check_word("version", header.version, version));
  if (!is_number(static_cast<Dtype>(header.sizes.dtype))) {
    return fail(FOVEA_BAD_VALUE, "bytes have dtype %" PRId32 ", expected %d, %d or %d", header.sizes.dtype, FOVEA_F32,
                FOVEA_F16, FOVEA_BF16);
  }
  FOVEA_CHECK(check_word("a reserved word of", header.reserved, 0));
  FOVEA_CHECK(check_kv_cache_sizes("bytes' ", header.sizes));
  if (header.length < 0 || header.length > header.sizes.capacity) {
    return fail(FOVEA_BAD_VALUE, "bytes' length is %" PRId64 ", expected 0 to their capacity, %" PRId64, header.length,
                header.sizes.capacity);
  }
  int64_t expected = 0;
  if (!total_size(header.sizes, header.length, &expected)) {
    return fail(FOVEA_BAD_VALUE, "bytes have sizes whose product is above 2^63, expected what was saved");
  }
  if (size == static_cast<size_t>(expected)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "size is %zu, expected %" PRId64 " by the sizes in bytes", size, expected);
}

Status check_bytes(const unsigned char *bytes, size_t size, Header *header) {
  if (size < saved_header_size) {
    return fail(FOVEA_BAD_VALUE, "size is %zu, expected at least %zu, a header", size, saved_header_size);
  }
  if (std::memcmp(bytes, magic, sizeof magic) != 0) {
    return fail(FOVEA_BAD_VALUE, "bytes at %p do not begin as a saved cache does, expected 0x89 and \"foveakv\"",
                static_cast<const void *>(bytes));
  }
  *header = get_header(bytes);
  FOVEA_CHECK(check_header(*header, size));
  const uint32_t checksum = saved_checksum(bytes, size);
  if (checksum == header->checksum) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "bytes have the checksum 0x%08" PRIx32 ", expected 0x%08" PRIx32 ": they were altered",
              checksum, header->checksum);
}

}  // namespace

size_t saved_kv_cache_size(const fovea_kv_cache *cache) {
  if (cache == nullptr) return 0;
  int64_t size = 0;
  return total_size(sizes_of(*cache), cache->length, &size) ? static_cast<size_t>(size) : 0;
}

Status save_kv_cache(const fovea_kv_cache *cache, void *bytes, size_t size) {
  FOVEA_CHECK(check_kv_cache(cache));
  const size_t needed = saved_kv_cache_size(cache);
  if (bytes == nullptr) return fail(FOVEA_NULL_POINTER, "bytes is NULL, expected %zu bytes", needed);
  if (size < needed) return fail(FOVEA_WORKSPACE_TOO_SMALL, "size is %zu, expected at least %zu", size, needed);
  auto *begin = static_cast<unsigned char *>(bytes);
  put_header(*cache, begin);
  unsigned char *at = begin + saved_header_size;
  for_each_run(*cache, [&](const void *elements, size_t run) {
    copy_saved_elements(elements, run, cache->dtype, at);
    at += run;
  });
  put_number(saved_checksum(begin, needed), begin + saved_checksum_at);
  return FOVEA_OK;
}

Status restore_kv_cache(const void *bytes, size_t size, int64_t capacity, fovea_kv_cache **cache) {
  if (bytes == nullptr) return fail(FOVEA_NULL_POINTER, "bytes is NULL, expected a saved cache");
  if (cache == nullptr) return fail(FOVEA_NULL_POINTER, "cache is NULL, expected where to store the cache");
  const auto *begin = static_cast<const unsigned char *>(bytes);
  Header header = {};
  FOVEA_CHECK(check_bytes(begin, size, &header));
  if (capacity != 0) {
    header.sizes.capacity = capacity;
    FOVEA_CHECK(check_kv_cache_sizes("", header.sizes));
    header.sizes.capacity = std::max(capacity, header.length);
  }
  fovea_kv_cache *made = nullptr;
  FOVEA_CHECK(create_kv_cache(&header.sizes, &made));
  made->length = header.length;
  const unsigned char *at = begin + saved_header_size;
  for_each_run(*made, [&](void *elements, size_t run) {
    copy_saved_elements(at, run, made->dtype, elements);
    at += run;
  });
  *cache = made;
  return FOVEA_OK;
}

}  // namespace fovea
