// Saves sequences and restores them.
#include "ops/pool/bytes.hpp"

#include <algorithm>
#include <cstring>

#include "ops/pool/check.hpp"
#include "ops/tensors/saved_bytes.hpp"

namespace fovea {
namespace {

void put_word(int64_t number, unsigned char *bytes) { put_number(static_cast<uint32_t>(number), bytes); }

void put_header(const fovea_kv_pool &pool, const Sequence &sequence, unsigned char *bytes) {
  std::memcpy(bytes, saved_sequence_magic, sizeof saved_sequence_magic);
  put_number(saved_sequence_version, bytes + SavedAt::version);
  put_number(static_cast<uint32_t>(pool.key_dtype), bytes + SavedAt::key_dtype);
  put_number(static_cast<uint32_t>(pool.value_dtype), bytes + SavedAt::value_dtype);
  put_word(pool.layers, bytes + SavedAt::layers);
  put_word(pool.kv_heads, bytes + SavedAt::kv_heads);
  put_word(pool.head_dim, bytes + SavedAt::head_dim);
  put_word(pool.value_dim, bytes + SavedAt::value_dim);
  put_word(pool.scale_group, bytes + SavedAt::scale_group);
  put_number(static_cast<uint64_t>(sequence.first), bytes + SavedAt::first);
  put_number(static_cast<uint64_t>(sequence.length), bytes + SavedAt::length);
  put_word(0, bytes + SavedAt::reserved_too);
}

// Calls visit(elements, bytes, dtype) for the runs of one head of a sequence: each lies in one page.
template <class Visit>
void for_each_run_of_head(const fovea_kv_pool &pool, const Sequence &sequence, const fovea_tensor &rows, int64_t head,
                          const Visit &visit) {
  const auto dtype = static_cast<Dtype>(rows.dtype);
  const int64_t dropped = sequence.first / pool.page_size;
  for (int64_t at = sequence.first; at < sequence.length;) {
    const int64_t page = at / pool.page_size;
    const int64_t end = std::min(sequence.length, (page + 1) * pool.page_size);
    const int64_t offset = sequence.pages[static_cast<size_t>(page - dropped)] * rows.strides[0] +
                           head * rows.strides[1] + at % pool.page_size * rows.strides[2];
    visit(element_at(rows.data, dtype, offset), static_cast<size_t>((end - at) * rows.shape[3] * bytes_of(dtype)),
          dtype);
    at = end;
  }
}

// Those of all heads and layers, in the order in which they are saved.
template <class Visit>
void for_each_run(const fovea_kv_pool &pool, const Sequence &sequence, const Visit &visit) {
  for (const PoolRows which : {pool_keys, pool_values, pool_key_scales, pool_value_scales}) {
    for (int64_t layer = 0; layer < pool.layers && pool.stores[which].dim > 0; ++layer) {
      const fovea_tensor rows = pool_rows(pool, which, layer);
      for (int64_t head = 0; head < pool.kv_heads; ++head) for_each_run_of_head(pool, sequence, rows, head, visit);
    }
  }
}

// A sequence of so many positions, with pages that nobody has written yet. There is room in the pool.
Sequence &open_restored(fovea_kv_pool *pool, const SavedHeader &header) {
  const int64_t count = pages_between(header.first, header.length, pool->page_size);
  std::vector<int32_t> pages;
  pages.reserve(static_cast<size_t>(count));  // the only step that may fail
  Sequence &sequence = pool->sequences.open();
  sequence.first = header.first;
  sequence.length = header.length;
  for (int64_t n = 0; n < count; ++n) pages.push_back(pool->pages.take(pages.empty() ? -1 : pages.back()));
  sequence.pages.swap(pages);
  return sequence;
}

}  // namespace

bool saved_size_of(const fovea_kv_pool &pool, int64_t positions, int64_t *size) {
  return checked_multiply(pool.layers * pool.kv_heads * pool_row_bytes(pool), positions, size) &&
         checked_add(*size, static_cast<int64_t>(saved_header_size), size);
}

size_t saved_sequence_size(const fovea_kv_pool *pool, int64_t sequence) {
  if (pool == nullptr) return 0;
  const Sequence *found = pool->sequences.find(sequence);
  int64_t size = 0;
  return found != nullptr && saved_size_of(*pool, found->length - found->first, &size) ? static_cast<size_t>(size) : 0;
}

Status save_sequence(const fovea_kv_pool *pool, int64_t sequence, void *bytes, size_t size) {
  FOVEA_CHECK(check_save(pool, sequence, bytes, size));
  const Sequence &saved = *pool->sequences.find(sequence);
  auto *begin = static_cast<unsigned char *>(bytes);
  put_header(*pool, saved, begin);
  unsigned char *at = begin + saved_header_size;
  for_each_run(*pool, saved, [&](const void *elements, size_t run, Dtype dtype) {
    copy_saved_elements(elements, run, dtype, at);
    at += run;
  });
  put_number(saved_checksum(begin, saved_sequence_size(pool, sequence)), begin + saved_checksum_at);
  return FOVEA_OK;
}

Status restore_sequence(fovea_kv_pool *pool, const void *bytes, size_t size, int64_t *sequence) {
  FOVEA_CHECK(check_kv_pool(pool));
  FOVEA_CHECK(expect_given(bytes, "bytes", "a saved sequence"));
  FOVEA_CHECK(expect_given(sequence, "sequence", "where to store the sequence"));
  const auto *begin = static_cast<const unsigned char *>(bytes);
  SavedHeader header = {};
  FOVEA_CHECK(check_saved_sequence(*pool, begin, size, &header));
  FOVEA_CHECK(check_sequence_room(*pool));
  FOVEA_CHECK(check_page_room(*pool, "bytes", pages_between(header.first, header.length, pool->page_size)));
  Sequence &restored = open_restored(pool, header);
  const unsigned char *at = begin + saved_header_size;
  for_each_run(*pool, restored, [&](void *elements, size_t run, Dtype dtype) {
    copy_saved_elements(at, run, dtype, elements);
    at += run;
  });
  *sequence = restored.number;
  return FOVEA_OK;
}

}  // namespace fovea
