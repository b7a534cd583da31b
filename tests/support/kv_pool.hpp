// Key/value pools for the tests: made, stepped, and read and written row by row through what a step says.
#pragma once

#include <fovea/fovea.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "contexts.hpp"
#include "random.hpp"

namespace testing {

struct DestroyKvPool {
  void operator()(fovea_kv_pool *pool) const { fovea_kv_pool_destroy(pool); }
};
using KvPool = std::unique_ptr<fovea_kv_pool, DestroyKvPool>;

struct PoolSizes {
  int64_t layers = 2, kv_heads = 2, head_dim = 3, value_dim = 2;
  int64_t positions = 60, page_size = 4, sequences = 8;
  fovea_dtype key_dtype = FOVEA_F32, value_dtype = FOVEA_F16;
  int64_t scale_group = 0;

  fovea_kv_pool_sizes sizes() const {
    return {sizeof(fovea_kv_pool_sizes),
            layers,
            kv_heads,
            head_dim,
            value_dim,
            positions,
            page_size,
            sequences,
            key_dtype,
            value_dtype,
            scale_group};
  }
};

inline KvPool make_pool(const PoolSizes &wanted) {
  const fovea_kv_pool_sizes sizes = wanted.sizes();
  fovea_kv_pool *pool = nullptr;
  REQUIRE_OK(fovea_kv_pool_create(&sizes, &pool));
  return KvPool(pool);
}

inline int64_t open_sequence(const KvPool &pool) {
  int64_t sequence = -7;
  REQUIRE_OK(fovea_kv_pool_open(pool.get(), &sequence));
  return sequence;
}

inline int64_t fork_sequence(const KvPool &pool, int64_t sequence, int64_t length) {
  int64_t forked = -7;
  REQUIRE_OK(fovea_kv_pool_fork(pool.get(), sequence, length, &forked));
  return forked;
}

inline fovea_tensor vector_of(const std::vector<int64_t> &numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  return fovea_tensor_contiguous(numbers.data(), FOVEA_I64, 1, &count);
}

inline fovea_status step_status(const KvPool &pool, const std::vector<int64_t> &sequences,
                                const std::vector<int64_t> &tokens, fovea_step *step,
                                const fovea_context *context = nullptr) {
  const fovea_tensor sequence_numbers = vector_of(sequences), token_numbers = vector_of(tokens);
  return fovea_kv_pool_step(context, pool.get(), &sequence_numbers, &token_numbers, step);
}

// A step's numbers, checked to be what a schedule takes.
struct StepNumbers {
  std::vector<int64_t> query_starts, key_lens, page_starts, page_ids;

  int64_t page(size_t s, int64_t n) const { return page_ids.at(static_cast<size_t>(page_starts.at(s) + n)); }
  std::vector<int64_t> pages(size_t s) const {
    return {page_ids.begin() + page_starts.at(s), page_ids.begin() + page_starts.at(s + 1)};
  }
};

inline std::vector<int64_t> numbers_in(const fovea_tensor *tensor) {
  REQUIRE(tensor != nullptr);
  REQUIRE(tensor->rank == 1);
  REQUIRE(tensor->strides[0] == 1);
  REQUIRE((tensor->dtype == FOVEA_I32 || tensor->dtype == FOVEA_I64));
  std::vector<int64_t> numbers;
  for (int64_t n = 0; n < tensor->shape[0]; ++n) {
    numbers.push_back(tensor->dtype == FOVEA_I32 ? static_cast<const int32_t *>(tensor->data)[n]
                                                 : static_cast<const int64_t *>(tensor->data)[n]);
  }
  return numbers;
}

inline StepNumbers numbers_of(const fovea_step &step) {
  REQUIRE(step.struct_size == sizeof(fovea_step));
  REQUIRE(step.key_starts == nullptr);
  const StepNumbers numbers = {numbers_in(step.query_starts), numbers_in(step.key_lens), numbers_in(step.page_starts),
                               numbers_in(step.page_ids)};
  REQUIRE(numbers.query_starts.size() == numbers.key_lens.size() + 1);
  REQUIRE(numbers.page_starts.size() == numbers.query_starts.size());
  REQUIRE(numbers.query_starts.front() == 0);
  REQUIRE(numbers.page_starts.front() == 0);
  REQUIRE(numbers.page_starts.back() == static_cast<int64_t>(numbers.page_ids.size()));
  return numbers;
}

inline StepNumbers step(const KvPool &pool, const std::vector<int64_t> &sequences, const std::vector<int64_t> &tokens,
                        const fovea_context *context = nullptr) {
  fovea_step made;
  REQUIRE_OK(step_status(pool, sequences, tokens, &made, context));
  return numbers_of(made);
}

// What a sequence is made of, without a change to it.
inline std::vector<int64_t> pages_of(const KvPool &pool, int64_t sequence) {
  return step(pool, {sequence}, {0}).pages(0);
}

// The elements of a pool, by page and position in it. An element holds the low bits of a number that every row of every
// layer and head makes of its stamp: each is another one.
class PoolRows {
 public:
  explicit PoolRows(const fovea_kv_pool *pool) {
    for (int64_t layer = 0;; ++layer) {
      const fovea_tensor keys = fovea_kv_pool_keys(pool, layer), values = fovea_kv_pool_values(pool, layer);
      if (keys.rank < 0) break;
      rows_.push_back(keys);
      rows_.push_back(values);
    }
  }

  int64_t page_size() const { return rows_[0].shape[2]; }

  void write(int64_t page, int64_t at, uint32_t stamp) const {
    for_each_element(page, at, stamp,
                     [](char *element, const void *number, size_t size) { std::memcpy(element, number, size); });
  }
  bool holds(int64_t page, int64_t at, uint32_t stamp) const {
    bool same = true;
    for_each_element(page, at, stamp, [&](char *element, const void *number, size_t size) {
      same = std::memcmp(element, number, size) == 0 && same;
    });
    return same;
  }

 private:
  template <typename Visit>
  void for_each_element(int64_t page, int64_t at, uint32_t stamp, Visit visit) const {
    uint32_t number = stamp * 2654435761u;
    for (const fovea_tensor &rows : rows_) {
      const size_t size = rows.dtype == FOVEA_F32 ? 4 : 2;
      for (int64_t head = 0; head < rows.shape[1]; ++head) {
        char *row =
            static_cast<char *>(rows.data) +
            (page * rows.strides[0] + head * rows.strides[1] + at * rows.strides[2]) * static_cast<int64_t>(size);
        for (int64_t d = 0; d < rows.shape[3]; ++d, row += size) {
          number += 40503;
          visit(row, &number, size);
        }
      }
    }
  }

  std::vector<fovea_tensor> rows_;  // of each layer: keys, values
};

// Writes stamps first, first + 1, ... into the new positions of sequence s of a step.
inline void write_new(const PoolRows &rows, const StepNumbers &numbers, size_t s, uint32_t first) {
  const int64_t tokens = numbers.query_starts.at(s + 1) - numbers.query_starts.at(s);
  for (int64_t n = 0; n < tokens; ++n) {
    const int64_t position = numbers.key_lens.at(s) - tokens + n;
    rows.write(numbers.page(s, position / rows.page_size()), position % rows.page_size(),
               first + static_cast<uint32_t>(n));
  }
}

// One sequence grows by positions with stamps first, first + 1, ...
inline StepNumbers fill(const KvPool &pool, int64_t sequence, int64_t tokens, uint32_t first,
                        const fovea_context *context = nullptr) {
  StepNumbers numbers = step(pool, {sequence}, {tokens}, context);
  write_new(PoolRows(pool.get()), numbers, 0, first);
  return numbers;
}

// Whether positions from `begin` on hold these stamps.
inline bool holds(const KvPool &pool, int64_t sequence, int64_t begin, const std::vector<uint32_t> &stamps) {
  const PoolRows rows(pool.get());
  const std::vector<int64_t> pages = pages_of(pool, sequence);
  for (size_t n = 0; n < stamps.size(); ++n) {
    const int64_t position = begin + static_cast<int64_t>(n);
    const auto page = static_cast<size_t>(position / rows.page_size());
    if (!rows.holds(pages.at(page), position % rows.page_size(), stamps[n])) return false;
  }
  return true;
}

inline std::vector<uint32_t> stamps_from(uint32_t first, int64_t count) {
  std::vector<uint32_t> stamps;
  for (int64_t n = 0; n < count; ++n) stamps.push_back(first + static_cast<uint32_t>(n));
  return stamps;
}

inline std::vector<unsigned char> save(const KvPool &pool, int64_t sequence) {
  std::vector<unsigned char> bytes(fovea_kv_pool_saved_size(pool.get(), sequence));
  REQUIRE_OK(fovea_kv_pool_save(pool.get(), sequence, bytes.data(), bytes.size()));
  return bytes;
}

// All that can be seen of a pool and of these sequences in it.
struct PoolState {
  int64_t free_pages = 0;
  std::vector<int64_t> lengths;
  std::vector<std::vector<int64_t>> pages;
  std::vector<std::vector<unsigned char>> bytes;
  bool operator==(const PoolState &) const = default;
};
inline PoolState state_of(const KvPool &pool, const std::vector<int64_t> &sequences) {
  PoolState state;
  state.free_pages = fovea_kv_pool_free_pages(pool.get());
  for (const int64_t sequence : sequences) {
    state.lengths.push_back(fovea_kv_pool_length(pool.get(), sequence));
    state.pages.push_back(pages_of(pool, sequence));
    state.bytes.push_back(save(pool, sequence));
  }
  return state;
}

}  // namespace testing
