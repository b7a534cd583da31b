// Packs keys and values in the order that AMX tiles read, once for all queries. A block of 128 positions of a head is
//
//   keys     [tile of 16 keys][step of 32 features]         a tile: 16 rows of 32 features, of a key each
//   values   [tile of 16 features][step of 32 keys]         a tile: 16 rows of 32 keys, of a feature each
//
// one tile of 1 kB after the other, so that no stride of a caller's makes rows of a tile collide in a cache. What lies
// behind the last feature is 0, and so is what lies behind the last position that any query attends: it meets weights
// of 0, and 0 * NaN is NaN.
#pragma once

#include "kernels/attention/source.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/tiles.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t block_keys = 128;
constexpr int64_t block_steps = block_keys / step_terms;

FOVEA_INLINE int64_t head_steps(int64_t head_dim) { return ceil_div(head_dim, step_terms); }
FOVEA_INLINE int64_t value_tiles(int64_t value_dim) { return ceil_div(value_dim, tile_edge); }

FOVEA_INLINE int64_t key_block_bytes(int64_t head_dim) {
  return block_keys / tile_edge * head_steps(head_dim) * tile_bytes;
}
FOVEA_INLINE int64_t value_block_bytes(int64_t value_dim) { return value_tiles(value_dim) * block_steps * tile_bytes; }

inline int64_t packed_block_bytes(int64_t head_dim, int64_t value_dim) {
  return key_block_bytes(head_dim) + value_block_bytes(value_dim);
}

// Prefetches a row of the next block while one of this block is packed, so that memory is not idle until then.
FOVEA_INLINE void ask_for(const void *row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += line_bytes) __builtin_prefetch(static_cast<const char *>(row) + at, 0, 2);
}

// `count` keys from `first` on, filled up to a step.
FOVEA_NOINLINE inline void pack_keys(const HeadSource &keys, int64_t first, int64_t count, int64_t ahead, char *to) {
  const int64_t head_dim = keys.dim;
  const int64_t steps = head_steps(head_dim);
  const int64_t bytes = head_dim * bytes_of(keys.rows.dtype);
  alignas(64) uint16_t room[largest_value_dim];
  for (int64_t j = 0; j < round_up(count, step_terms); ++j) {
    char *row = to + j / tile_edge * steps * tile_bytes + j % tile_edge * tile_row_bytes;
    const auto *from = j < count ? static_cast<const uint16_t *>(keys.ready_row(first + j, room)) : nullptr;
    if (j < ahead) ask_for(keys.row(first + j + block_keys), bytes);
    for (int64_t d = 0; d < head_dim; d += step_terms, row += tile_bytes) {
      const int64_t width = j < count ? min_of(step_terms, head_dim - d) : 0;
      _mm512_store_si512(row, width == 0 ? _mm512_setzero_si512() : load_elements(from + d, width));
    }
  }
}

// Rows of a step of values from feature d on; those in several runs or with scales are brought together first.
FOVEA_INLINE void turn_values(const HeadSource &values, int64_t first, int64_t count, int64_t d, int64_t width,
                              char *to) {
  const RowSpan span = values.whole_span(first, count);
  if (span.data != nullptr) return turn_rows(span.row_of<uint16_t>(0) + d, span.stride, count, width, to);
  alignas(64) uint16_t rows[step_terms * tile_edge];
  if (values.has_scales()) values.scale_part(first, count, d, width, rows, tile_edge);
  for (int64_t j = 0; !values.has_scales() && j < count; ++j) {
    memcpy(rows + j * tile_edge, static_cast<const uint16_t *>(values.row(first + j)) + d,
           static_cast<size_t>(width) * sizeof(uint16_t));
  }
  turn_rows(rows, tile_edge, count, width, to);
}

FOVEA_NOINLINE inline void pack_values(const HeadSource &values, int64_t first, int64_t count, int64_t ahead,
                                       char *to) {
  const int64_t value_dim = values.dim;
  for (int64_t tile = 0; tile < value_tiles(value_dim); ++tile) {
    const int64_t d = tile * tile_edge;
    const int64_t width = min_of(tile_edge, value_dim - d);
    for (int64_t j = 0; j < count; j += step_terms) {
      for (int64_t i = j; d % step_terms == 0 && i < min_of(j + step_terms, ahead); ++i) {
        const HeadRows &rows = values.rows;
        __builtin_prefetch(element_at(values.row(first + i + block_keys), rows.dtype, rows.elements_of(d)), 0, 2);
      }
      turn_values(values, first + j, min_of(step_terms, count - j), d, width,
                  to + (tile * block_steps + j / step_terms) * tile_bytes);
    }
  }
}

inline void pack_block(const AttentionPack &pack) {
  const AttentionProblem &problem = *pack.problem;
  const AttentionSizes &sizes = problem.sizes;
  const Dtype dtype = problem.query.dtype;  // that of all three
  const HeadSource keys(problem.key, pack.batch, pack.kv_head, sizes.compared_dim, RowForm::given, nullptr, dtype);
  const HeadSource values(problem.value, pack.batch, pack.kv_head, sizes.value_dim, RowForm::given, nullptr, dtype);
  pack_keys(keys, pack.first_key, pack.count, pack.ahead, pack.to);
  pack_values(values, pack.first_key, pack.count, pack.ahead, pack.to + key_block_bytes(sizes.compared_dim));
}

// The block, with the values of those keys as 0 whose bit in `masked` is set.
FOVEA_NOINLINE inline void copy_harmless_values(const char *from, int64_t value_dim, const uint32_t *masked, char *to) {
  for (int64_t tile = 0; tile < value_tiles(value_dim); ++tile) {
    for (int64_t step = 0; step < block_steps; ++step) {
      for (int64_t r = 0; r < tile_edge; ++r) {
        const int64_t at = (tile * block_steps + step) * tile_bytes + r * tile_row_bytes;
        _mm512_store_si512(to + at, _mm512_maskz_loadu_epi16(static_cast<__mmask32>(~masked[step]), from + at));
      }
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
