// Keys and values of many sequences in pages that they may share. A page has the same number in every layer, so there
// is one account of pages for all of them. A sequence holds a page once; a page may be held by many.
//
// Memory is one block: [layer] of keys [pages][kv_heads][page_size][head_dim], then values, then scales where these are
// of 8 or 4 bits, so that all heads of a page lie side by side. A sequence's last page is the only one that a step may
// write into while others hold it: then it is copied first, in all layers.
#pragma once

#include <vector>

#include "ops/pool/pages.hpp"
#include "ops/pool/sequences.hpp"
#include "ops/tensors/tensor_argument.hpp"
#include "runtime/context.hpp"
#include "runtime/memory_layout.hpp"
#include "status.hpp"
#include "types.hpp"

namespace fovea {

// A sequence of a step, and by how much it grows.
struct Growth {
  Sequence *sequence;
  int64_t tokens;
  bool copies;  // its last page, which others hold too
};

// The rows of a page that begin another.
struct PageCopy {
  int32_t from, to;
  int64_t rows;
};

// What the present step is described by, and what it is made with.
struct StepTables {
  std::vector<int32_t> query_starts, key_lens, page_ids;
  std::vector<int64_t> page_starts;
  fovea_tensor tensors[4] = {};  // of these
  std::vector<Growth> growths;
  std::vector<PageCopy> copies;
  int64_t count = 0;  // steps begun
};

// What there is of a position in a layer: a row for each head, of each of these.
enum PoolRows : int { pool_keys, pool_values, pool_key_scales, pool_value_scales, pool_store_count };

struct PoolStore {
  Dtype dtype = Dtype::f32;
  int64_t dim = 0;  // elements of a row. 0: there are none
  MemoryPart<char> in_layer = {};

  int64_t row_bytes() const { return dim * bytes_of(dtype); }
};

}  // namespace fovea

struct fovea_kv_pool {
  int64_t layers = 0, kv_heads = 0, page_size = 0;
  int64_t head_dim = 0, value_dim = 0;
  int64_t scale_group = 0;  // features that share a scale, as the caller gave it
  fovea::Dtype key_dtype = fovea::Dtype::f32, value_dtype = fovea::Dtype::f32;
  void *memory = nullptr;
  fovea::MemoryPart<char> layer_parts;
  fovea::PoolStore stores[fovea::pool_store_count];
  fovea::Pages pages;
  fovea::Sequences sequences;
  fovea::StepTables step;

  fovea_kv_pool() = default;
  fovea_kv_pool(const fovea_kv_pool &) = delete;
  fovea_kv_pool &operator=(const fovea_kv_pool &) = delete;
  ~fovea_kv_pool();
};

namespace fovea {

// A layer's keys as [P,Hkv,page,D], or the like. The layer is one of the pool's, and there are such rows.
fovea_tensor pool_rows(const fovea_kv_pool &pool, PoolRows which, int64_t layer);

// Bytes that a position of one head takes in one layer.
int64_t pool_row_bytes(const fovea_kv_pool &pool);

// Pages that a sequence holds which keeps positions [first, length).
constexpr int64_t pages_between(int64_t first, int64_t length, int64_t page_size) {
  return ceil_div(length, page_size) - first / page_size;
}

[[nodiscard]] Status create_kv_pool(const fovea_kv_pool_sizes *sizes, fovea_kv_pool **pool);
void destroy_kv_pool(fovea_kv_pool *pool);
[[nodiscard]] Status open_sequence(fovea_kv_pool *pool, int64_t *sequence);
[[nodiscard]] Status fork_sequence(fovea_kv_pool *pool, int64_t sequence, int64_t length, int64_t *forked);
[[nodiscard]] Status truncate_sequence(fovea_kv_pool *pool, int64_t sequence, int64_t length);
[[nodiscard]] Status drop_positions(fovea_kv_pool *pool, int64_t sequence, int64_t first);
[[nodiscard]] Status close_sequence(fovea_kv_pool *pool, int64_t sequence);
[[nodiscard]] Status step_kv_pool(const Context *given, fovea_kv_pool *pool, const TensorArgument &sequences,
                                  const TensorArgument &tokens, fovea_step *step);

// Keys, values or their scales of a layer; of rank -1 where there are none, or no such layer, or no pool.
fovea_tensor layer_rows(const fovea_kv_pool *pool, PoolRows which, int64_t layer);

// -1 for what is no sequence, or no pool.
int64_t sequence_length(const fovea_kv_pool *pool, int64_t sequence);

// 0 for no pool, or no sequence.
int64_t free_pages(const fovea_kv_pool *pool);
size_t kv_pool_size(const fovea_kv_pool *pool);
size_t saved_sequence_size(const fovea_kv_pool *pool, int64_t sequence);

[[nodiscard]] Status save_sequence(const fovea_kv_pool *pool, int64_t sequence, void *bytes, size_t size);
[[nodiscard]] Status restore_sequence(fovea_kv_pool *pool, const void *bytes, size_t size, int64_t *sequence);

}  // namespace fovea
