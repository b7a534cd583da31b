// Room for a step: first counts what it needs, then has it all or fails, then takes pages, copies those that are shared
// and written into, and describes the step.
//
// Where several sequences of a step share their last page with nobody else, all but the last one get copies.
#include <algorithm>
#include <cstring>

#include "ops/pool/check.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

int64_t pages_after(const fovea_kv_pool &pool, const Growth &growth) {
  const Sequence &sequence = *growth.sequence;
  return pages_between(sequence.first, sequence.length + growth.tokens, pool.page_size);
}

// Notes which growths copy their last page, in their order: each lets go of it, and the next may then be its only
// holder. In the end all of them hold it again.
int64_t count_copies(fovea_kv_pool *pool) {
  int64_t copies = 0;
  for (Growth &growth : pool->step.growths) {
    const Sequence &sequence = *growth.sequence;
    growth.copies =
        growth.tokens > 0 && sequence.length % pool->page_size != 0 && pool->pages.is_shared(sequence.pages.back());
    if (!growth.copies) continue;
    pool->pages.give_back(sequence.pages.back());
    ++copies;
  }
  for (const Growth &growth : pool->step.growths) {
    if (growth.copies) pool->pages.share(growth.sequence->pages.back());
  }
  return copies;
}

// Room for `count` elements, which grows so that elements added one by one are moved a few times only.
template <class T>
void make_room(size_t count, std::vector<T> *elements) {
  if (count > elements->capacity()) elements->reserve(std::max(count, 2 * elements->capacity()));
}

// Makes room in all lists, the only part that may fail once the pages are known to suffice. That of the present step
// comes last: it stays where it is until nothing can fail any more.
void make_lists_grow(fovea_kv_pool *pool) {
  int64_t total = 0;
  for (const Growth &growth : pool->step.growths) {
    const int64_t count = pages_after(*pool, growth);
    make_room(static_cast<size_t>(count), &growth.sequence->pages);
    total += growth.sequence->first / pool->page_size + count;
  }
  make_room(static_cast<size_t>(total), &pool->step.page_ids);
}

void grow(fovea_kv_pool *pool, const Growth &growth) {
  Sequence *sequence = growth.sequence;
  std::vector<int32_t> &pages = sequence->pages;
  const int64_t wanted = pages_after(*pool, growth);
  if (growth.copies) {
    const int32_t shared = pages.back();
    pages.back() = pool->pages.take(-1);
    pool->pages.give_back(shared);
    pool->step.copies.push_back({shared, pages.back(), sequence->length % pool->page_size});
  }
  while (static_cast<int64_t>(pages.size()) < wanted) {
    pages.push_back(pool->pages.take(pages.empty() ? -1 : pages.back()));
  }
  sequence->length += growth.tokens;
}

// Copies one page's keys or values in one layer.
void copy_page(const fovea_tensor &rows, const PageCopy &copy) {
  const auto dtype = static_cast<Dtype>(rows.dtype);
  const auto size = static_cast<size_t>(copy.rows * rows.shape[3] * bytes_of(dtype));
  for (int64_t head = 0; head < rows.shape[1]; ++head) {
    std::memcpy(
        element_at(rows.data, dtype, copy.to * rows.strides[0] + head * rows.strides[1]),
        element_at(static_cast<const void *>(rows.data), dtype, copy.from * rows.strides[0] + head * rows.strides[1]),
        size);
  }
}

void copy_pages(const Context &context, const fovea_kv_pool &pool) {
  const std::vector<PageCopy> &copies = pool.step.copies;
  const auto count = static_cast<int64_t>(copies.size());
  int64_t elements = 0;
  for (const PageCopy &copy : copies) {
    elements += copy.rows * pool.kv_heads * (pool.head_dim + pool.value_dim) * pool.layers;
  }
  run_tasks(context, copying_workers(context, elements), count * pool.layers * pool_store_count,
            [&](int, int64_t task) {
              const auto which = static_cast<PoolRows>(task % pool_store_count);
              const int64_t copy = task / pool_store_count;
              if (pool.stores[which].dim == 0) return;
              copy_page(pool_rows(pool, which, copy / count), copies[static_cast<size_t>(copy % count)]);
            });
}

// Pages that were given back stand in the list as the first that is held, or as any where none is: a reader may look at
// them as part of a tile, though it attends none of their keys.
void describe_sequence(const fovea_kv_pool &pool, const Growth &growth, StepTables *step) {
  const Sequence &sequence = *growth.sequence;
  const auto given_back = static_cast<size_t>(sequence.first / pool.page_size);
  step->page_ids.insert(step->page_ids.end(), given_back, sequence.pages.empty() ? 0 : sequence.pages.front());
  step->page_ids.insert(step->page_ids.end(), sequence.pages.begin(), sequence.pages.end());
  step->page_starts.push_back(static_cast<int64_t>(step->page_ids.size()));
  step->key_lens.push_back(static_cast<int32_t>(sequence.length));
  step->query_starts.push_back(step->query_starts.back() + static_cast<int32_t>(growth.tokens));
}

template <class T>
void set_tensor(const std::vector<T> &elements, fovea_dtype dtype, fovea_tensor *tensor) {
  const auto count = static_cast<int64_t>(elements.size());
  *tensor = contiguous_tensor(elements.data(), dtype, 1, &count);
}

// The members that the first version of fovea_step had, and its size: a caller's struct has at least these.
fovea_step describe_step(fovea_kv_pool *pool) {
  StepTables &tables = pool->step;
  tables.query_starts.assign(1, 0);
  tables.page_starts.assign(1, 0);
  tables.key_lens.clear();
  tables.page_ids.clear();
  for (const Growth &growth : tables.growths) describe_sequence(*pool, growth, &tables);
  set_tensor(tables.query_starts, FOVEA_I32, &tables.tensors[0]);
  set_tensor(tables.key_lens, FOVEA_I32, &tables.tensors[1]);
  set_tensor(tables.page_ids, FOVEA_I32, &tables.tensors[2]);
  set_tensor(tables.page_starts, FOVEA_I64, &tables.tensors[3]);
  return {.struct_size = first_size<fovea_step>,
          .query_starts = &tables.tensors[0],
          .key_starts = nullptr,
          .key_lens = &tables.tensors[1],
          .page_ids = &tables.tensors[2],
          .page_starts = &tables.tensors[3],
          .tree = nullptr};
}

}  // namespace

Status step_kv_pool(const Context *given, fovea_kv_pool *pool, const TensorArgument &sequences,
                    const TensorArgument &tokens, fovea_step *step) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_kv_pool(pool));
  FOVEA_CHECK(check_step(pool, sequences, tokens, step));
  int64_t needed = count_copies(pool);
  for (const Growth &growth : pool->step.growths) {
    needed += pages_after(*pool, growth) - static_cast<int64_t>(growth.sequence->pages.size());
  }
  FOVEA_CHECK(check_page_room(*pool, "the step", needed));
  make_lists_grow(pool);
  pool->step.copies.clear();
  for (const Growth &growth : pool->step.growths) grow(pool, growth);
  copy_pages(*context, *pool);
  *step = describe_step(pool);
  return FOVEA_OK;
}

}  // namespace fovea
