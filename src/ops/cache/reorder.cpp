// Reorders a cache in place: sequence b becomes what was sequence source[b]. A sequence that no other one still needs is
// overwritten at once, and then its source may be free as well; what remains are cycles, and each takes one spare copy.
// The order of these moves is the same for all positions, so they are made for a piece of a head at a time: a source that
// many sequences want is read once, and the spare copy is a piece.
#include <algorithm>
#include <cstring>

#include "ops/cache/check.hpp"
#include "ops/tensors/copy.hpp"
#include "runtime/parallel.hpp"
#include "runtime/workspace.hpp"

namespace fovea {
namespace {

constexpr int64_t piece_bytes = 16384;  // 64 sequences' pieces fit in a core's L2

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
  char *rows;
  int64_t sequence_stride, head_stride;  // bytes
  int64_t head_bytes, pieces;
};

Storage storage_of(const fovea_tensor &rows) {
  const auto size = static_cast<int64_t>(dtype_size(static_cast<Dtype>(rows.dtype)));
  const int64_t head_bytes = rows.shape[2] * rows.shape[3] * size;
  return {static_cast<char *>(rows.data), rows.strides[0] * size, rows.strides[1] * size, head_bytes,
          ceil_div(head_bytes, piece_bytes)};
}

void move_piece(const Storage &storage, int64_t index, const Move *moves, int64_t count) {
  const int64_t first = index % storage.pieces * piece_bytes;
  const auto size = static_cast<size_t>(std::min(piece_bytes, storage.head_bytes - first));
  char *rows = storage.rows + index / storage.pieces * storage.head_stride + first;
  alignas(cache_line) char kept[piece_bytes];
  const auto at = [&](int32_t sequence) {
    return sequence == spare ? kept : rows + sequence * storage.sequence_stride;
  };
  for (int64_t n = 0; n < count; ++n) std::memcpy(at(moves[n].to), at(moves[n].from), size);
}

void move_sequences(const Context &context, const fovea_kv_cache &cache, const Move *moves, int64_t count) {
  const Storage keys = storage_of(cached_keys(cache, 0, cache.length));
  const Storage values = storage_of(cached_values(cache, 0, cache.length));
  const int64_t key_tasks = cache.kv_heads * keys.pieces;
  constexpr int64_t float_bytes = sizeof(float);
  const int64_t bytes = count * cache.kv_heads * (keys.head_bytes + values.head_bytes);
  const int workers = copying_workers(context, bytes / float_bytes);
  run_tasks(context, workers, key_tasks + cache.kv_heads * values.pieces, [&](int, int64_t task) {
    const bool is_key = task < key_tasks;
    move_piece(is_key ? keys : values, is_key ? task : task - key_tasks, moves, count);
  });
}

}  // namespace

Status reorder_kv_cache(const Context *given, fovea_kv_cache *cache, const TensorArgument &source) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_kv_cache(cache));
  FOVEA_CHECK(check_source(*cache, source));
  if (cache->batch == 0 || cache->length == 0) return FOVEA_OK;
  MemoryLayout layout;
  const auto next_part = layout.add<int32_t>(cache->batch);
  const auto uses_part = layout.add_behind<int32_t>({cache->batch});
  const auto moves_part = layout.add_behind<Move>({cache->batch + cache->batch / 2});
  const Workspace workspace(*context, layout);
  FOVEA_CHECK(workspace.status());
  int32_t *next = next_part.in(workspace.data());
  Move *moves = moves_part.in(workspace.data());
  for (int64_t b = 0; b < cache->batch; ++b) {
    next[b] = static_cast<int32_t>(integer_within(*source, b * source->strides[0], 0, cache->batch - 1));
  }
  const int64_t count = order_moves(static_cast<int32_t>(cache->batch), next, uses_part.in(workspace.data()), moves);
  move_sequences(*context, *cache, moves, count);
  return FOVEA_OK;
}

}  // namespace fovea
