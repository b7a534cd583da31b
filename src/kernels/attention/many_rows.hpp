// Attention of many rows: lanes are rows throughout. Values are broadcast from where they lie, the output accumulates
// transposed and is transposed back once. All score functions share this: their structs in scores/ derive from it.
//
//   out[d][row] = out[d][row] * rescale[row] + sum_key value[key][d] weight[key][row]
#pragma once

#include "kernels/attention/online_softmax.hpp"
#include "kernels/attention/score.hpp"
#include "kernels/products/microkernel.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct ManyRowsValues {
  static constexpr int64_t tile_rows = 4 * lanes * (lanes < 16 ? 2 : 1);
  static constexpr int64_t tile_keys = 96;
  static constexpr int64_t line_keys = tile_keys;
  static constexpr int64_t value_keys = tile_keys;
  static constexpr bool is_few_rows = false;
  static constexpr bool takes_bytes = false;
  static constexpr bool takes_pairs = false;  // of bfloat16: keys as they lie, values as pairs of keys
  using Terms = Products;
  static constexpr int64_t max_bands = 4;

  static constexpr int64_t keys_at_once(int64_t) { return tile_keys; }

  // As many as keep queries and outputs within about half a megabyte of the second-level cache.
  static constexpr int64_t bands(int64_t head_dim, int64_t value_dim) {
    return max_of(1, min_of(max_bands, 1024 / (head_dim + value_dim)));
  }

  // In floats, per task.
  static constexpr int64_t out_floats(int64_t value_dim) { return value_dim * tile_rows; }

  // query[d][row]
  FOVEA_NOINLINE static void transpose_queries(const RowTable<tile_rows> &table, Dtype dtype, int64_t dim,
                                               float *query) {
    with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      const typename T::Element *from[tile_rows];
      for (int64_t r = 0; r < table.count; ++r) from[r] = static_cast<const typename T::Element *>(table.query[r]);
      for (int64_t r = 0; r < table.count; r += lanes) {
        rows_to_lanes(from + r, min_of(lanes, table.count - r), dim, query + r, tile_rows);
      }
    });
  }

  // out = out * rescale + block, of its first row and register.
  template <int count, int vectors>
  FOVEA_INLINE static void add_scaled(const Block<count, vectors> &block, float *out, const float *rescale) {
    unroll<vectors>([&](auto i) FOVEA_INLINE_BODY {
      const Float factor = load(rescale + i * lanes);
      unroll<count>([&](auto r) FOVEA_INLINE_BODY {
        float *sum = out + r * tile_rows + i * lanes;
        store(sum, multiply_add(load(sum), factor, block.at[r * vectors + i]));
      });
    });
  }

  // out = out * rescale + weighted values, for `vectors` registers of rows, of keys [first, last) of the tile.
  template <int vectors>
  FOVEA_INLINE static void add_values_vectors(float *out, const RowSpan &values, PacedFetch *next, int64_t value_dim,
                                              const ScoreTile &tile, const float *rescale, int64_t v, int64_t first,
                                              int64_t last, int64_t chain) {
    const int64_t start = tile.key % chain, end = end_of_chain(start + first, chain);
    for_each_block<vectors>(value_dim, [&](auto block_dims, int64_t d) FOVEA_INLINE_BODY {
      constexpr int count = decltype(block_dims)::value;
      RowPointers<count, Order::column_major> value(values.row(first) + d, values.stride);
      Block<count, vectors> block;
      const float *weights = tile.scores + v * lanes;
      sum_in_chains(block, start + first, start + last, chain, end, [&](int64_t j, int64_t keys) FOVEA_INLINE_BODY {
        accumulate(block, value, weights + (j - start) * tile_rows, tile_rows, keys);
        if (v == 0) next->worked_on(keys * count);
      });
      add_scaled(block, out + d * tile_rows + v * lanes, rescale + v * lanes);
    });
  }

  // chain: of keys, as value_chain is.
  FOVEA_NOINLINE static void add_values(float *out, const RowSpan &values, int64_t value_dim, int64_t,
                                        const ScoreTile &tile, const float *rescale, int64_t chain = value_chain) {
    PacedFetch next(*values.next);
    const bool whole = tile.vector_any == nullptr;
    int64_t v = 0;
    if (whole) {
      v = for_each_wide_group(tile.vectors, [&](auto group, int64_t at) FOVEA_INLINE_BODY {
        add_values_vectors<decltype(group)::value>(out, values, &next, value_dim, tile, rescale, at, 0, tile.keys,
                                                   chain);
      });
    }
    for (; v < tile.vectors; ++v) {
      const KeyRange range = whole ? KeyRange{0, tile.keys} : tile.keys_of(v);
      if (range.first >= range.last) continue;  // its rows saw nothing, so their rescale is 1
      add_values_vectors<1>(out, values, &next, value_dim, tile, rescale, v, range.first, range.last, chain);
    }
  }

  FOVEA_INLINE static void clear_out(float *out, int64_t value_dim, int64_t row_count) {
    for (const float *end = out + value_dim * tile_rows; out < end; out += tile_rows) {
      for (int64_t r = 0; r < row_count; r += lanes) store(out + r, zero());
    }
  }

  // out = out + total * factor
  FOVEA_NOINLINE static void add_out(float *out, const float *total, const float *factor, int64_t value_dim,
                                     int64_t row_count) {
    for (int64_t r = 0; r < row_count; r += lanes) {
      const Float scale = load(factor + r);
      for (int64_t i = r; i < value_dim * tile_rows; i += tile_rows) {
        store(out + i, multiply_add(load(total + i), scale, load(out + i)));
      }
    }
  }

  // For each of `lanes` rows 0 if all of out[d][row] is finite, else NaN.
  FOVEA_INLINE static Float finite_check(const float *out, int64_t value_dim) {
    Float check[4] = {zero(), zero(), zero(), zero()};
    const auto add = [&](auto i, int64_t d)
                         FOVEA_INLINE_BODY { check[i] = multiply_add(load(out + d * tile_rows), zero(), check[i]); };
    int64_t d = 0;
    for (; d + 4 <= value_dim; d += 4) {
      unroll<4>([&](auto i) FOVEA_INLINE_BODY { add(i, d + i); });
    }
    for (; d < value_dim; ++d) add(Index<0>{}, d);
    return (check[0] + check[1]) + (check[2] + check[3]);
  }

  // rows[r][d] = out[d][r] * factor[r]; finite[r] as in finite_check.
  FOVEA_NOINLINE static void store_out(const float *out, int64_t value_dim, const float *factor, void *const *rows,
                                       Dtype dtype, int64_t row_count, float *finite) {
    with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      typename T::Element *to[tile_rows];
      for (int64_t r = 0; r < row_count; ++r) to[r] = static_cast<typename T::Element *>(rows[r]);
      for (int64_t r = 0; r < row_count; r += lanes) {
        const Float scale = load(factor + r);
        store(finite + r, finite_check(out + r, value_dim));
        lanes_to_rows(out + r, tile_rows, scale, to + r, min_of(lanes, row_count - r), value_dim);
      }
    });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
