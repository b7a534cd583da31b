// Key/value caches: creation, appending, attending, reordering. A handle is looked up in a table of live ones before
// anything is read through it, so that a stale one is an error and not a crash.
//
// Reordering works in place: sequence b becomes what was sequence source[b]. A sequence that no other one still needs
// is overwritten at once, and then its source may be free as well; what remains are cycles, and each takes one spare
// copy. The order of these moves is the same for all positions, so they are made for a piece of a head at a time: a
// source that many sequences want is read once, and the spare copy is a piece.
#include "ops/cache/kv_cache.hpp"

#include <pthread.h>

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <unordered_set>

#include "ops/attention/attention.hpp"
#include "ops/tensors/check.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

fovea_kv_cache::~fovea_kv_cache() { std::free(memory); }

namespace fovea {
namespace {

constexpr int64_t task_floats = 32768;  // of a copy: some 10 microseconds
constexpr int64_t piece_floats = 4096;  // of a reordering: 64 sequences' pieces fit in a core's L2

int copying_workers(const Context &context, int64_t floats) {
  constexpr double cycles_per_float = 0.5;  // from and to a cache
  return workers_for(context, cycles_per_float * static_cast<double>(floats));
}

// The caches there are. Constant-initialised, without the guard that another thread may hold when this one forks, and
// never destroyed: a cache may be a static object's, which is destroyed at any time.
struct LiveCaches {
  std::shared_mutex mutex;
  std::unordered_set<const fovea_kv_cache *> *set = nullptr;  // made with the first cache
};
constinit LiveCaches live;

// A child is forked while no other thread holds the lock, which nobody there could release. Nor could the child: it is
// another thread than the one that took it.
void before_fork() { live.mutex.lock(); }
void after_fork_in_parent() { live.mutex.unlock(); }
void after_fork_in_child() { new (&live.mutex) std::shared_mutex; }
[[maybe_unused]] const int forks_are_handled = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

void add_live(const fovea_kv_cache *cache) {
  const std::unique_lock lock(live.mutex);
  if (live.set == nullptr) live.set = new std::unordered_set<const fovea_kv_cache *>;
  live.set->insert(cache);
}

bool remove_live(const fovea_kv_cache *cache) {
  const std::unique_lock lock(live.mutex);
  return live.set != nullptr && live.set->erase(cache) != 0;
}

// The block and where its parts lie. What does not depend on the batch or on the capacity has to fit even where these are
// 0: strides and shapes are computed from it.
struct Parts {
  MemoryLayout layout;
  MemoryPart<float> keys, values;
};

Parts lay_out(const fovea_kv_cache &cache, int64_t sequences, int64_t positions) {
  Parts parts;
  parts.keys = parts.layout.add<float>({positions, cache.head_dim, cache.kv_heads, sequences});
  parts.values = parts.layout.add<float>({positions, cache.value_dim, cache.kv_heads, sequences});
  return parts;
}

fovea_tensor cached_rows(const fovea_kv_cache &cache, float *rows, int64_t dim, int64_t first, int64_t count) {
  const int64_t shape[] = {cache.batch, cache.kv_heads, count, dim};
  fovea_tensor tensor = contiguous_tensor(rows + first * dim, FOVEA_F32, 4, shape);
  tensor.strides[1] = cache.capacity * dim;
  tensor.strides[0] = cache.kv_heads * tensor.strides[1];
  return tensor;
}

// [B,n,D] and [n,D] as [B,1,n,D] and [1,1,n,D].
fovea_tensor lift(const fovea_tensor &tensor) {
  fovea_tensor lifted = tensor;
  lifted.rank = 4;
  for (int axis = 0; axis < 2; ++axis) {
    const int from = axis + tensor.rank - 2;
    lifted.shape[axis + 2] = tensor.shape[from];
    lifted.strides[axis + 2] = tensor.strides[from];
  }
  if (tensor.rank < 4) lifted.shape[1] = 1;
  if (tensor.rank < 3) lifted.shape[0] = 1;
  return lifted;
}

constexpr const char *as_created = "as the cache was created";

Status check_new_rows(const fovea_kv_cache &cache, const fovea_tensor *key, const fovea_tensor *value) {
  FOVEA_CHECK(check_tensor(key, {.name = "key", .min_rank = 2, .max_rank = 4}));
  const TensorRule value_rule = {.name = "value", .min_rank = key->rank, .max_rank = key->rank};
  FOVEA_CHECK(check_tensor(value, value_rule));
  const fovea_tensor keys = lift(*key);
  const fovea_tensor values = lift(*value);
  FOVEA_CHECK(expect_sizes({{"key", "batch entries", keys.shape[0], cache.batch, as_created},
                            {"key", "heads", keys.shape[1], cache.kv_heads, as_created},
                            {"key", "features", keys.shape[3], cache.head_dim, as_created},
                            {"value", "batch entries", values.shape[0], cache.batch, as_created},
                            {"value", "heads", values.shape[1], cache.kv_heads, as_created},
                            {"value", "positions", values.shape[2], keys.shape[2], "as key"},
                            {"value", "features", values.shape[3], cache.value_dim, as_created}}));
  return check_room(cache, keys.shape[2]);
}

// What attention's own checks would blame on a key, which this call does not have. They see to everything else, a
// query that is missing or of another rank included.
Status check_query(const fovea_kv_cache &cache, const fovea_score *score, const fovea_tensor *query) {
  AttentionCall call = {};
  FOVEA_CHECK(read_score(score, &call));
  if (query == nullptr || query->rank < 2 || query->rank > 4) return FOVEA_OK;
  if ((query->rank == 3 && cache.kv_heads != 1) || (query->rank == 2 && (cache.kv_heads != 1 || cache.batch != 1))) {
    return fail(FOVEA_BAD_RANK,
                "query has rank %d, expected 4: the cache has %" PRId64 " sequences of %" PRId64 " heads", query->rank,
                cache.batch, cache.kv_heads);
  }
  const bool one_dim = call.score.kind == FOVEA_SCORE_DOT || call.score.kind == FOVEA_SCORE_GAUSSIAN;
  const fovea_tensor lifted = lift(*query);
  return expect_sizes({{"query", "batch entries", lifted.shape[0], cache.batch, as_created},
                       {"query", "features", one_dim ? lifted.shape[3] : cache.head_dim, cache.head_dim, as_created}});
}

// Without the axes that a query of this rank does not have.
fovea_tensor lower(const fovea_tensor &rows, int32_t rank) {
  fovea_tensor lowered = rows;
  lowered.rank = rank;
  for (int axis = 0; axis < 2; ++axis) {
    const int to = axis + rank - 2;
    lowered.shape[to] = rows.shape[axis + 2];
    lowered.strides[to] = rows.strides[axis + 2];
  }
  return lowered;
}

Status check_source(const fovea_kv_cache &cache, const fovea_tensor *source) {
  FOVEA_CHECK(expect_given(source, "source", "a sequence number per sequence"));
  FOVEA_CHECK(check_integer_tensor(*source, "source", 1, true));
  return check_size(*source, "source", 0, cache.batch, "the cache's batch entries");
}

// Sequence numbers are below 2^30.
constexpr int32_t spare = -1;
struct Move {
  int32_t to, from;
};

// Moves in an order in which nothing is overwritten that is still needed; at most 3 for 2 sequences. next[b] is the
// sequence that b becomes a copy of, and -1 once it is; uses[b] counts those that still have to become copies of b.
int64_t order_moves(int32_t batch, int32_t *next, int32_t *uses, Move *moves) {
  std::fill(uses, uses + batch, 0);
  for (int32_t b = 0; b < batch; ++b) {
    if (next[b] == b) next[b] = -1;
    if (next[b] >= 0) ++uses[next[b]];
  }
  int64_t count = 0;
  for (int32_t b = 0; b < batch; ++b) {
    for (int32_t to = b; next[to] >= 0 && uses[to] == 0;) {
      const int32_t from = next[to];
      moves[count++] = {to, from};
      next[to] = -1;
      --uses[from];
      to = from;
    }
  }
  for (int32_t b = 0; b < batch; ++b) {
    if (next[b] < 0) continue;
    moves[count++] = {spare, b};
    int32_t to = b;
    for (int32_t from = next[to]; from != b; from = next[to]) {
      moves[count++] = {to, from};
      next[to] = -1;
      to = from;
    }
    moves[count++] = {to, spare};
    next[to] = -1;
  }
  return count;
}

// Keys or values of the cache, in pieces of each head.
struct Storage {
  float *rows;
  int64_t sequence_stride, head_stride;
  int64_t head_floats, pieces;
};

Storage storage_of(const fovea_tensor &rows) {
  const int64_t head_floats = rows.shape[2] * rows.shape[3];
  return {static_cast<float *>(rows.data), rows.strides[0], rows.strides[1], head_floats,
          ceil_div(head_floats, piece_floats)};
}

void move_piece(const Storage &storage, int64_t index, const Move *moves, int64_t count) {
  const int64_t first = index % storage.pieces * piece_floats;
  const size_t size = static_cast<size_t>(std::min(piece_floats, storage.head_floats - first)) * sizeof(float);
  float *rows = storage.rows + index / storage.pieces * storage.head_stride + first;
  alignas(cache_line) float kept[piece_floats];
  const auto at = [&](int32_t sequence) {
    return sequence == spare ? kept : rows + sequence * storage.sequence_stride;
  };
  for (int64_t n = 0; n < count; ++n) std::memcpy(at(moves[n].to), at(moves[n].from), size);
}

void move_sequences(const Context &context, const fovea_kv_cache &cache, const Move *moves, int64_t count) {
  const Storage keys = storage_of(cached_keys(cache, 0, cache.length));
  const Storage values = storage_of(cached_values(cache, 0, cache.length));
  const int64_t key_tasks = cache.kv_heads * keys.pieces;
  const int workers = copying_workers(context, count * cache.kv_heads * (keys.head_floats + values.head_floats));
  run_tasks(context, workers, key_tasks + cache.kv_heads * values.pieces, [&](int, int64_t task) {
    const bool is_key = task < key_tasks;
    move_piece(is_key ? keys : values, is_key ? task : task - key_tasks, moves, count);
  });
}

}  // namespace

bool is_kv_cache(const fovea_kv_cache *cache) {
  const std::shared_lock lock(live.mutex);
  return live.set != nullptr && live.set->count(cache) != 0;
}

Status check_kv_cache(const fovea_kv_cache *cache) {
  if (cache == nullptr) return fail(FOVEA_NULL_POINTER, "cache is NULL, expected a key/value cache");
  if (is_kv_cache(cache)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "cache is %p, expected a cache that was created and not destroyed",
              static_cast<const void *>(cache));
}

Status check_room(const fovea_kv_cache &cache, int64_t count) {
  const int64_t left = cache.capacity - cache.length;
  if (count <= left) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE,
              "key has %" PRId64 " positions, expected at most %" PRId64 " (what is left of the cache's %" PRId64 ")",
              count, left, cache.capacity);
}

Status check_kv_cache_sizes(const char *where, const fovea_kv_cache_sizes &sizes) {
  const struct {
    const char *name;
    int64_t value, least, most;
  } numbers[] = {{"batch", sizes.batch, 0, largest_length},
                 {"kv_heads", sizes.kv_heads, 1, largest_length},
                 {"capacity", sizes.capacity, 0, largest_length},
                 {"head_dim", sizes.head_dim, 1, largest_head_dim},
                 {"value_dim", sizes.value_dim, 1, largest_head_dim}};
  for (const auto &number : numbers) {
    FOVEA_CHECK(check_range(where, number.name, number.value, number.least, number.most));
  }
  return FOVEA_OK;
}

fovea_tensor cached_keys(const fovea_kv_cache &cache, int64_t first, int64_t count) {
  return cached_rows(cache, cache.keys, cache.head_dim, first, count);
}

fovea_tensor cached_values(const fovea_kv_cache &cache, int64_t first, int64_t count) {
  return cached_rows(cache, cache.values, cache.value_dim, first, count);
}

void copy_rows(const Context &context, const fovea_tensor &from, const fovea_tensor &to) {
  const int64_t floats = element_count(from);
  if (floats == 0) return;
  // Axes that follow each other in both are one run.
  int64_t run = from.shape[3];
  int axis = 2;
  for (; axis >= 0; --axis) {
    if (from.shape[axis] > 1 && (from.strides[axis] != run || to.strides[axis] != run)) break;
    run *= from.shape[axis];
  }
  RowSpace space;
  for (int outer = 0; outer <= axis; ++outer) {
    if (from.shape[outer] == 1) continue;  // its stride may be anything
    space.add_axis(from.shape[outer], from.strides[outer], to.strides[outer]);
  }
  const int64_t pieces = ceil_div(run, task_floats);
  const int64_t piece = ceil_div(run, pieces);
  const int64_t rows_per_task = std::max<int64_t>(1, task_floats / run);
  const int64_t tasks = ceil_div(space.count, rows_per_task) * pieces;
  const auto *source = static_cast<const float *>(from.data);
  auto *target = static_cast<float *>(to.data);
  run_tasks(context, copying_workers(context, floats), tasks, [&](int, int64_t task) {
    const int64_t begin = task / pieces * rows_per_task;
    const int64_t end = std::min(begin + rows_per_task, space.count);
    const int64_t first = task % pieces * piece;
    const size_t size = static_cast<size_t>(std::min(piece, run - first)) * sizeof(float);
    RowCursor cursor(space, begin);
    for (int64_t row = begin; row < end; ++row, cursor.next()) {
      std::memcpy(target + cursor.out_offset() + first, source + cursor.x_offset() + first, size);
    }
  });
}

Status create_kv_cache(const fovea_kv_cache_sizes *sizes, fovea_kv_cache **cache) {
  if (sizes == nullptr) return fail(FOVEA_NULL_POINTER, "sizes is NULL, expected the sizes of a cache");
  if (cache == nullptr) return fail(FOVEA_NULL_POINTER, "cache is NULL, expected where to store the cache");
  fovea_kv_cache_sizes wanted;
  FOVEA_CHECK(read_options("sizes", sizes, &wanted));
  if (wanted.value_dim == 0) wanted.value_dim = wanted.head_dim;
  FOVEA_CHECK(check_kv_cache_sizes("sizes.", wanted));
  std::unique_ptr<fovea_kv_cache> made(new (std::nothrow) fovea_kv_cache);
  if (made == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for a cache");
  made->batch = wanted.batch;
  made->kv_heads = wanted.kv_heads;
  made->capacity = wanted.capacity;
  made->head_dim = wanted.head_dim;
  made->value_dim = wanted.value_dim;
  const int64_t sequences = std::max<int64_t>(wanted.batch, 1);
  const int64_t positions = std::max<int64_t>(wanted.capacity, 1);
  if (!lay_out(*made, sequences, positions).layout.fits()) {
    return fail(FOVEA_SIZE_OVERFLOW,
                "capacity is %" PRId64 " for %" PRId64 " x %" PRId64 " heads, too large for the address space",
                wanted.capacity, wanted.batch, wanted.kv_heads);
  }
  const Parts parts = lay_out(*made, wanted.batch, wanted.capacity);
  made->size = parts.layout.size();
  // Pages that no position has reached yet cost nothing: the system gives them at the first touch.
  made->memory = std::aligned_alloc(cache_line, std::max(made->size, cache_line));
  if (made->memory == nullptr) return fail(FOVEA_OUT_OF_MEMORY, "no memory for %zu bytes of a cache", made->size);
  made->keys = parts.keys.in(made->memory);
  made->values = parts.values.in(made->memory);
  add_live(made.get());
  *cache = made.release();
  return FOVEA_OK;
}

void destroy_kv_cache(fovea_kv_cache *cache) {
  if (remove_live(cache)) delete cache;
}

Status append_kv_cache(const Context *given, fovea_kv_cache *cache, const TensorArgument &key,
                       const TensorArgument &value) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_new_rows(*cache, key, value));
  const fovea_tensor keys = lift(*key);
  const int64_t count = keys.shape[2];
  copy_rows(*context, keys, cached_keys(*cache, cache->length, count));
  copy_rows(*context, lift(*value), cached_values(*cache, cache->length, count));
  cache->length += count;
  return FOVEA_OK;
}

Status attend_kv_cache(const Context *given, const fovea_kv_cache *cache, const fovea_score *score,
                       const fovea_tensor *query, const fovea_tensor *out, const fovea_attention_options *options) {
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_query(*cache, score, query));
  const int32_t rank = query == nullptr ? 4 : std::clamp(query->rank, 2, 4);
  const fovea_tensor key = lower(cached_keys(*cache, 0, cache->length), rank);
  const fovea_tensor value = lower(cached_values(*cache, 0, cache->length), rank);
  return attend(given, {score, query, &key, nullptr, &value, out, options});
}

Status truncate_kv_cache(fovea_kv_cache *cache, int64_t length) {
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_range("", "length", length, 0, cache->length));
  cache->length = length;
  return FOVEA_OK;
}

Status reorder_kv_cache(const Context *given, fovea_kv_cache *cache, const TensorArgument &source) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_source(*cache, source));
  if (cache->batch == 0 || cache->length == 0) return FOVEA_OK;
  FOVEA_CHECK(check_integers(*source, "source", cache->batch - 1, "", nullptr));
  MemoryLayout layout;
  const auto next_part = layout.add<int32_t>(cache->batch);
  const auto uses_part = layout.add<int32_t>(cache->batch);
  const auto moves_part = layout.add<Move>(cache->batch + cache->batch / 2);
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  int32_t *next = next_part.in(workspace.data());
  Move *moves = moves_part.in(workspace.data());
  for (int64_t b = 0; b < cache->batch; ++b) {
    next[b] = static_cast<int32_t>(integer_at(*source, b * source->strides[0]));
  }
  const int64_t count = order_moves(static_cast<int32_t>(cache->batch), next, uses_part.in(workspace.data()), moves);
  move_sequences(*context, *cache, moves, count);
  return FOVEA_OK;
}

int64_t kv_cache_length(const fovea_kv_cache *cache) { return is_kv_cache(cache) ? cache->length : 0; }

size_t kv_cache_size(const fovea_kv_cache *cache) { return is_kv_cache(cache) ? cache->size : 0; }

}  // namespace fovea
