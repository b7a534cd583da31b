// Dot product of bfloat16 queries and keys, 3 to 16 rows, by products of pairs (AVX-512-BF16): like DotFewRows, but an
// instruction takes two features of a key, and two keys of the values. Nothing is widened, so that the arithmetic of
// several rows keeps up with half the bytes.
//
//   scores   registers of 16 pairs of features, which as bits are floats: FeatureRows with half the features. 8 rows and
//            more are taken all at once: DotPairsTogether
//   values   two keys' rows are joined to pairs in registers, which serve up to 12 rows of weights, rounded to bfloat16
//
// Bound: bytes of keys and values, or (D + Dv) / 32 instructions for each row and key. Weights and sums are those of
// DotPairs.
#pragma once

#include "kernels/attention/dense_tile.hpp"
#include "kernels/attention/feature_rows.hpp"
#include "kernels/products/pair_products.hpp"
#include "kernels/scores/dot_pairs.hpp"
#include "kernels/scores/dot_pairs_together.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct PairFeatures : PairProducts {
  FOVEA_INLINE static Float finish(const Float &sum) { return sum; }
};

struct DotPairsFewRows : FeatureRows<PairFeatures> {
  static constexpr bool takes_pairs = true;
  static constexpr bool takes_numbers = false;
  static constexpr int64_t wide = 2 * lanes;  // elements of a register
  static_assert(value_keys % 2 == 0);

  static constexpr int64_t few_rows_of(int64_t) { return tile_rows; }

  static constexpr int64_t query_floats(int64_t head_dim) { return round_up(head_dim / 2, lanes) * tile_rows; }
  static_assert(lanes % DotPairsTogether::parts == 0);  // so that those have room, too

  // By the whole task, so that a row that is computed again by itself sums in the same order.
  FOVEA_INLINE static bool takes_all(const RowTable<tile_rows> &table) {
    return table.task_rows >= DotPairsTogether::least_rows;
  }

  // query[row][pair of features], padded with zeros to whole registers: pairs of bits are moved like floats.
  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t pairs = problem.sizes.compared_dim / 2;
    if (takes_all(table)) return DotPairsTogether::load_queries(pairs, table, query);
    const int64_t padded = round_up(pairs, lanes);
    for (int64_t r = 0; r < table.count; ++r) {
      const auto *from = static_cast<const float *>(table.query[r]);
      float *to = query + r * padded;
      for (int64_t d = 0; d < pairs; d += lanes) store(to + d, load_partial(from + d, min_of(lanes, pairs - d)));
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    if (takes_all(job.table)) return DotPairsTogether::score(job);
    const RowSpan keys = job.keys.in_pairs();
    for_each_row_group<rows_together>(job.table.count, [&](auto group, int64_t row) FOVEA_INLINE_BODY {
      score_group<float, decltype(group)::value>(job.query, keys, job.problem.sizes.compared_dim / 2, row,
                                                 pass_of<rows_together, uint16_t>(row, job.table.count), job.tile);
    });
  }

  // Weights as pairs, in place: scores[pair of keys][row], as far apart as the weights were. An odd last key is paired
  // with a weight of 0, which in a dense tile lies behind it.
  FOVEA_NOINLINE static void pair_weights(const ScoreTile &tile) {
    if (tile.stride == tile_rows) {
      for (int64_t j = 0; j < tile.keys; j += 2) {
        const float *from = tile.scores + j * tile_rows;
        const Float second = j + 1 < tile.keys ? load(from + tile_rows) : zero();
        store(tile.scores + j / 2 * tile_rows, Float(pairs_of(load(from).data, second.data)));
      }
      return;
    }
    with_dense_width(tile.stride, [&](auto columns) FOVEA_INLINE_BODY {
      constexpr int width = decltype(columns)::value;
      for (int64_t at = 0; at < tile.keys * width; at += 2 * lanes) {
        const auto first = load(tile.scores + at).data, second = load(tile.scores + at + lanes).data;
        store(tile.scores + at / 2, Float(pairs_of(every_second_group<width, false>(first, second),
                                                   every_second_group<width, true>(first, second))));
      }
    });
  }

  // `registers` of 32 values each for `group` rows, of which the last has `width`.
  template <int group, int registers>
  FOVEA_INLINE static void add_columns(float *out, const ValueRuns<uint16_t> &values, int64_t padded, int64_t row,
                                       Pass pass, const ScoreTile &tile, const float *rescale, int64_t width) {
    Block<group, 2 * registers> sum;
    sum.clear();
    const float *weight = tile.scores + row;
    const int64_t stride = values.stride;
    const auto load_values = [&](const uint16_t *at, auto v) FOVEA_INLINE_BODY {
      constexpr bool last = decltype(v)::value + 1 == registers;
      return last ? load_first_elements(at + v * wide, width) : _mm512_loadu_si512(at + v * wide);
    };
    const auto add = [&](const uint16_t *first, const auto &second) FOVEA_INLINE_BODY {
      PairRegisters value[registers];
      unroll<registers>([&](auto v)
                            FOVEA_INLINE_BODY { value[v] = join_in_quarters(load_values(first, v), second(v)); });
      unroll<group>([&](auto r) FOVEA_INLINE_BODY {
        const Float w(weight[r]);
        unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
          constexpr int at = (decltype(r)::value * registers + decltype(v)::value) * 2;
          sum.at[at] = PairProducts::add(w, Float(value[v].low), sum.at[at]);
          sum.at[at + 1] = PairProducts::add(w, Float(value[v].high), sum.at[at + 1]);
        });
      });
    };
    ValueCursor<uint16_t> from = values.cursor();
    for (int64_t j = 0; j < tile.keys;) {
      const int64_t end = j + from.take(tile.keys - j);
      for (; j + 1 < end; j += 2, from.row += 2 * stride, weight += tile.stride) {
        if (pass.template asks_at<group>(j)) {
          unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
            prefetch_line<ask_for(2)>(from.row + from.ahead + v * wide);
            prefetch_line<ask_for(2)>(from.row + from.ahead + stride + v * wide);
          });
        }
        add(from.row, [&](auto v) FOVEA_INLINE_BODY { return load_values(from.row + stride, v); });
      }
      if (j == end) continue;
      // Memory ends, or the tile does, between the two of a pair.
      const uint16_t *first = from.row;
      if (++j < tile.keys) {
        from.take(1);
        add(first, [&](auto v) FOVEA_INLINE_BODY { return load_values(from.row, v); });
        from.row += stride;
        ++j;
      } else {
        add(first, [](auto) FOVEA_INLINE_BODY { return _mm512_setzero_si512(); });
      }
      weight += tile.stride;
    }
    unroll<group>([&](auto r) FOVEA_INLINE_BODY {
      const Float factor(rescale[row + r]);
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
        constexpr int at = (decltype(r)::value * registers + decltype(v)::value) * 2;
        const PairRegisters ordered = in_order(sum.at[at].data, sum.at[at + 1].data);
        float *to = out + (row + r) * padded + v * wide;
        store(to, multiply_add(load(to), factor, Float(ordered.low)));
        if (v + 1 < registers || width > lanes) {
          store(to + lanes, multiply_add(load(to + lanes), factor, Float(ordered.high)));
        }
      });
    });
  }

  FOVEA_NOINLINE static void add_piece(float *out, const ValueRuns<uint16_t> &values, int64_t value_dim,
                                       int64_t row_count, const ScoreTile &tile, const float *rescale) {
    const int64_t padded = round_up(value_dim, lanes);
    for_each_block<1>(row_count, [&](auto group, int64_t row) FOVEA_INLINE_BODY {
      constexpr int rows = decltype(group)::value;
      // With 8 rows and more the first pass is most of the work.
      const Pass alone = row == 0 ? all_keys : no_keys;
      const Pass pass = row_count < DotPairsTogether::least_rows ? pass_of<4, uint16_t>(row, row_count) : alone;
      int64_t d = 0;
      if constexpr (rows <= 4) {
        for (; d + 2 * wide <= value_dim; d += 2 * wide) {
          add_columns<rows, 2>(out + d, values.from(d), padded, row, pass, tile, rescale, wide);
        }
      }
      for (; d < value_dim; d += wide) {
        add_columns<rows, 1>(out + d, values.from(d), padded, row, pass, tile, rescale, min_of(wide, value_dim - d));
      }
    });
  }

  FOVEA_INLINE static void add_values(float *out, const RowSpan &values, int64_t value_dim, int64_t row_count,
                                      const ScoreTile &tile, const float *rescale) {
    pair_weights(tile);
    if (values.source == nullptr) return add_pieces<1>(out, values, value_dim, row_count, tile, rescale);
    add_pieces_of_runs(out, values, value_dim, row_count, tile, rescale);
  }

  FOVEA_NOINLINE static void add_pieces_of_runs(float *out, const RowSpan &values, int64_t value_dim, int64_t row_count,
                                                const ScoreTile &tile, const float *rescale) {
    add_pieces<value_keys>(out, values, value_dim, row_count, tile, rescale);
  }

  // Each of at most so many runs.
  template <int64_t most_runs>
  FOVEA_INLINE static void add_pieces(float *out, const RowSpan &values, int64_t value_dim, int64_t row_count,
                                      const ScoreTile &tile, const float *rescale) {
    for_each_piece<2>(value_dim, tile, rescale,
                      [&](int64_t j, int64_t ahead, const ScoreTile &piece, const float *factors) FOVEA_INLINE_BODY {
                        ValueRun<uint16_t> room[most_runs];
                        add_piece(out, HeadSource::value_runs(values, j, piece.keys, ahead, room), value_dim, row_count,
                                  piece, factors);
                      });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
