// What becomes of a sequence apart from steps: it is opened, forked, cut at either end, and closed. All of it is
// bookkeeping; no row is touched.
#include "ops/pool/sequences.hpp"

#include "ops/pool/check.hpp"

namespace fovea {
namespace {

// Holds no more than the first `count` of its pages.
void keep_pages(fovea_kv_pool *pool, Sequence *sequence, int64_t count) {
  while (static_cast<int64_t>(sequence->pages.size()) > count) {
    pool->pages.give_back(sequence->pages.back());
    sequence->pages.pop_back();
  }
}

}  // namespace

Status open_sequence(fovea_kv_pool *pool, int64_t *sequence) {
  FOVEA_CHECK(check_kv_pool(pool));
  FOVEA_CHECK(expect_given(sequence, "sequence", "where to store the sequence"));
  FOVEA_CHECK(check_sequence_room(*pool));
  *sequence = pool->sequences.open().number;
  return FOVEA_OK;
}

Status fork_sequence(fovea_kv_pool *pool, int64_t sequence, int64_t length, int64_t *forked) {
  FOVEA_CHECK(check_sequence(pool, sequence));
  FOVEA_CHECK(expect_given(forked, "forked", "where to store the sequence"));
  const Sequence &source = *pool->sequences.find(sequence);
  FOVEA_CHECK(check_kept_length(source, length));
  FOVEA_CHECK(check_sequence_room(*pool));
  const int64_t count = pages_between(source.first, length, pool->page_size);
  std::vector<int32_t> pages(source.pages.begin(), source.pages.begin() + count);  // the only step that may fail
  Sequence &fork = pool->sequences.open();
  fork.length = length;
  fork.first = source.first;
  fork.pages.swap(pages);
  for (const int32_t page : fork.pages) pool->pages.share(page);
  *forked = fork.number;
  return FOVEA_OK;
}

Status truncate_sequence(fovea_kv_pool *pool, int64_t sequence, int64_t length) {
  FOVEA_CHECK(check_sequence(pool, sequence));
  Sequence *cut = pool->sequences.find(sequence);
  FOVEA_CHECK(check_kept_length(*cut, length));
  keep_pages(pool, cut, pages_between(cut->first, length, pool->page_size));
  cut->length = length;
  return FOVEA_OK;
}

Status drop_positions(fovea_kv_pool *pool, int64_t sequence, int64_t first) {
  FOVEA_CHECK(check_sequence(pool, sequence));
  Sequence *cut = pool->sequences.find(sequence);
  FOVEA_CHECK(check_range("", "first", first, 0, cut->length));
  if (first <= cut->first) return FOVEA_OK;
  const auto kept = cut->pages.begin() + (first / pool->page_size - cut->first / pool->page_size);
  for (auto page = cut->pages.begin(); page != kept; ++page) pool->pages.give_back(*page);
  cut->pages.erase(cut->pages.begin(), kept);
  cut->first = first;
  return FOVEA_OK;
}

Status close_sequence(fovea_kv_pool *pool, int64_t sequence) {
  FOVEA_CHECK(check_sequence(pool, sequence));
  Sequence *closed = pool->sequences.find(sequence);
  keep_pages(pool, closed, 0);
  pool->sequences.close(closed);
  return FOVEA_OK;
}

int64_t sequence_length(const fovea_kv_pool *pool, int64_t sequence) {
  if (pool == nullptr) return -1;
  const Sequence *found = pool->sequences.find(sequence);
  return found == nullptr ? -1 : found->length;
}

}  // namespace fovea
