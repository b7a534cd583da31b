// Benchmarks of key/value caches, kv_append/f32/<shape>/<instruction set>/t<threads> and kv_reorder/f32/..., of a model
// with 8 key/value heads of 128 features (Llama 3 8B); a few of them in bfloat16, kv_append/bf16/... (given as such),
// and one whose float32 keys and values are kept as float16.
//
// What bounds them: memory. A step of decoding writes a row of each head to a place of its own, far from the next, and
// waits for each; the limit shown is memcpy between regions as large as the cache (64 MB at most) all the same.
// Reordering reads a source once, however many beams go on from it, and keeps what it sets aside in L1; it may therefore
// be faster.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fovea/layers.h"
#include "harness/harness.hpp"
#include "limits/limits.hpp"

namespace fovea_bench {
namespace {

constexpr int64_t kv_heads = 8, head_dim = 128, row_elements = 2 * kv_heads * head_dim, probe_bytes = 64 << 20;

// A position's, of all heads.
int64_t row_bytes(fovea_dtype dtype) { return row_elements * static_cast<int64_t>(element_bytes(dtype)); }

struct CacheDeleter {
  void operator()(fovea_kv_cache *cache) const { fovea_kv_cache_destroy(cache); }
};

// One key and one value tensor [B,Hkv,n,D] that lie as a projection leaves them: B, n, Hkv, D.
struct CacheData {
  std::unique_ptr<fovea_kv_cache, CacheDeleter> cache;
  Buffer rows, probe_from, probe_to;
  fovea_tensor key;

  CacheData(int64_t batch, int64_t count, int64_t capacity, fovea_dtype given, fovea_dtype kept)
      : rows(normals(batch * count * row_elements / 2, given)),
        probe_from(zeros(std::min(batch * capacity * row_bytes(kept), probe_bytes) / 4)),
        probe_to(zeros(std::min(batch * capacity * row_bytes(kept), probe_bytes) / 4)) {
    const fovea_kv_cache_sizes sizes = {sizeof sizes, batch, kv_heads, capacity, head_dim, head_dim, kept, 0};
    fovea_kv_cache *created = nullptr;
    check(fovea_kv_cache_create(&sizes, &created));
    cache.reset(created);
    key = tensor(rows.data(), {batch, kv_heads, count, head_dim}, given);
    key.strides[1] = head_dim;
    key.strides[2] = kv_heads * head_dim;
  }
};

struct AppendCase {
  const char *name;
  int64_t batch, count;
  fovea_dtype dtype = FOVEA_F32;  // of what is kept
  bool narrows = false;           // given as float32
  fovea_dtype given() const { return narrows ? FOVEA_F32 : dtype; }
  // Read and written.
  double bytes() const { return static_cast<double>(batch * count * (row_bytes(given()) + row_bytes(dtype))); }
};

constexpr int64_t append_capacity = 4096, reorder_length = 2048;

// Fills a cache over and over.
std::function<void()> append_call(std::shared_ptr<CacheData> data, const Variant &variant, int64_t count) {
  const std::shared_ptr<fovea_context> context = make_context(variant.isa, variant.threads);
  return [=] {
    fovea_kv_cache *cache = data->cache.get();
    if (fovea_kv_cache_length(cache) + count > append_capacity) check(fovea_kv_cache_truncate(cache, 0));
    check(fovea_kv_cache_append(context.get(), cache, &data->key, &data->key));
  };
}

std::function<void()> reorder_call(std::shared_ptr<CacheData> data, const Variant &variant,
                                   std::vector<int32_t> source) {
  const std::shared_ptr<fovea_context> context = make_context(variant.isa, variant.threads);
  return [=] {
    const fovea_tensor numbers = tensor(source.data(), {static_cast<int64_t>(source.size())}, FOVEA_I32);
    check(fovea_kv_cache_reorder(context.get(), data->cache.get(), &numbers));
  };
}

// `bytes` are read or written.
Prepared prepare(std::shared_ptr<CacheData> data, double bytes, const Variant &variant) {
  Prepared prepared;
  prepared.shortest_seconds = [=] {
    return bytes / copy_rate(data->probe_to.data(), data->probe_from.data(), data->probe_to.bytes(), variant.threads,
                             probe_seconds());
  };
  return prepared;
}

Prepared prepare_append(const AppendCase &what, const Variant &variant) {
  const auto data = std::make_shared<CacheData>(what.batch, what.count, append_capacity, what.given(), what.dtype);
  Prepared prepared = prepare(data, what.bytes(), variant);
  prepared.run = append_call(data, variant, what.count);
  if (variant.threads > 1) prepared.run_on_one_thread = append_call(data, {variant.isa, 1}, what.count);
  return prepared;
}

struct ReorderCase {
  const char *name;
  std::vector<int32_t> source;
  int64_t moved;  // sequences
  fovea_dtype dtype = FOVEA_F32;
  double bytes() const { return 2 * static_cast<double>(moved * reorder_length * row_bytes(dtype)); }
};

Prepared prepare_reorder(const ReorderCase &what, const Variant &variant) {
  const auto batch = static_cast<int64_t>(what.source.size());
  const auto data = std::make_shared<CacheData>(batch, reorder_length, reorder_length, what.dtype, what.dtype);
  check(fovea_kv_cache_append(nullptr, data->cache.get(), &data->key, &data->key));
  Prepared prepared = prepare(data, what.bytes(), variant);
  prepared.run = reorder_call(data, variant, what.source);
  if (variant.threads > 1) prepared.run_on_one_thread = reorder_call(data, {variant.isa, 1}, what.source);
  return prepared;
}

}  // namespace

void add_kv_cache(Cases *list) {
  static const AppendCase appends[] = {{"llama8b_step", 1, 1},
                                       {"llama8b_batch_step", 16, 1},
                                       {"llama8b_prompt", 1, 1024},
                                       {"llama8b_batch_step", 16, 1, FOVEA_BF16},
                                       {"llama8b_prompt", 1, 1024, FOVEA_BF16},
                                       {"llama8b_prompt_of_f32", 1, 1024, FOVEA_F16, true}};
  static const ReorderCase reorders[] = {{"llama8b_4_beams_from_1", {2, 2, 2, 2}, 3},
                                         {"llama8b_4_beams_cycle", {1, 2, 3, 0}, 4},
                                         {"llama8b_4_beams_swap", {1, 0, 2, 3}, 2},
                                         {"llama8b_4_beams_from_1", {2, 2, 2, 2}, 3, FOVEA_BF16}};
  const std::vector<Parameter> model = {{"kv_heads", kv_heads}, {"head_dim", head_dim}, {"value_dim", head_dim}};
  const auto add = [&](const char *operation, const auto &what, std::vector<Parameter> sizes, const auto &prepare_it) {
    sizes.insert(sizes.end(), model.begin(), model.end());
    list->push_back({.operation = operation,
                     .model = what.name,
                     .dtype = what.dtype,
                     .bound = Bound::bytes,
                     .work = {.bytes = what.bytes()},
                     .parameters = sizes,
                     .unit = benchmark::kMicrosecond,
                     .prepare = [&what, prepare_it](const Variant &variant) { return prepare_it(what, variant); }});
  };
  for (const AppendCase &what : appends)
    add("kv_append", what, {{"batch", what.batch}, {"count", what.count}, {"capacity", append_capacity}},
        prepare_append);
  for (const ReorderCase &what : reorders)
    add("kv_reorder", what, {{"source", what.source}, {"length", reorder_length}}, prepare_reorder);
}

}  // namespace fovea_bench
