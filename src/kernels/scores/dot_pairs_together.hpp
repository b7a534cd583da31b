// Scores of 8 to 16 rows of bfloat16 by products of pairs, all rows at once: a register holds four neighbouring pairs
// of features of four rows of queries, and four pairs of a key are repeated as they are loaded, so that each load
// serves up to four registers and a score is the sum of only four lanes. Keys are read as streams, three neighbours of
// each.
//
// Bound: bytes of keys, or D / 32 instructions for each row, 7 to 10 for each key's sums, and with two registers of
// queries as many loads as instructions. Fewer rows are faster one register of a key at a time (FeatureRows).
#pragma once

#include "kernels/attention/few_rows.hpp"
#include "kernels/products/pair_products.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct DotPairsTogether {
  static constexpr int64_t least_rows = 8;
  static constexpr int64_t tile_rows = FewRowsValues::tile_rows;
  static constexpr int64_t parts = 4;  // pairs of features of a row in a register

  // query[step][row % registers][row / registers][part], padded with zeros: pairs of bits are moved like floats.
  FOVEA_NOINLINE static void load_queries(int64_t pairs, const RowTable<tile_rows> &table, float *query) {
    const int64_t registers = ceil_div(table.count, parts);
    const int64_t step = registers * lanes;
    for (int64_t i = 0; i < ceil_div(pairs, parts) * step; i += lanes) store(query + i, zero());
    for (int64_t r = 0; r < table.count; ++r) {
      const auto *from = static_cast<const float *>(table.query[r]);
      float *to = query + r % registers * lanes + r / registers * parts;
      int64_t p = 0;
      for (; p + parts <= pairs; p += parts, to += step) memcpy(to, from + p, parts * sizeof(float));
      memcpy(to, from + p, static_cast<size_t>(pairs - p) * sizeof(float));
    }
  }

  // The scores of `keys` keys; each three neighbours lie `apart` keys behind the three before, scores likewise,
  // `score_stride` floats from key to key. Memory is asked for `far` floats ahead. What a row lacks of a whole step
  // counts as 0.
  template <int registers, int keys>
  FOVEA_INLINE static void score_keys(const float *query, const float *first_key, int64_t stride, int64_t far,
                                      int64_t apart, int64_t pairs, float *scores, int64_t score_stride) {
    RowPointers<keys, Order::row_major> key(first_key, stride, apart * stride);
    Block<keys, registers> sum;
    const auto add = [&](const auto &load_parts) FOVEA_INLINE_BODY {
      Float q[registers];
      unroll<registers>([&](auto v) FOVEA_INLINE_BODY { q[v] = load(query + v * lanes); });
      query += registers * lanes;
      unroll<keys>([&](auto r) FOVEA_INLINE_BODY {
        const Float k(load_parts(key.template address<decltype(r)::value>()));
        unroll<registers>([&](auto v) FOVEA_INLINE_BODY {
          constexpr int at = decltype(r)::value * registers + decltype(v)::value;
          sum.at[at] = PairProducts::add(k, q[v], sum.at[at]);
        });
      });
      key.template advance<parts>();
    };
    const int64_t whole = pairs / parts, all = ceil_div(pairs, parts);
    sum_in_chains(sum, 0, all, feature_chain(all), [&](int64_t step, int64_t steps) FOVEA_INLINE_BODY {
      const int64_t end = step + steps;
      for (; step < min_of(end, whole); ++step) {
        if (step % (line_floats / parts) == 0) {
          unroll<keys>([&](auto r) FOVEA_INLINE_BODY {
            __builtin_prefetch(key.template address<decltype(r)::value>() + far, 0, 2);
          });
        }
        add([](const float *at) FOVEA_INLINE_BODY { return repeat_four_pairs(at); });
      }
      if (step < end) {
        add([&](const float *at) FOVEA_INLINE_BODY { return repeat_first_pairs(at, pairs % parts); });
      }
    });
    unroll<keys>([&](auto r) FOVEA_INLINE_BODY {
      float *at = scores + (r / 3 * apart + r % 3) * score_stride;
      store_quarters<registers>(at, sums_of_four<registers>(&sum.at[r * registers]));
    });
  }

  template <int registers>
  FOVEA_INLINE static void score_streams(const ScoreJob<tile_rows> &job, int64_t pairs) {
    constexpr int block = registers <= 2 ? 12 : 6;
    const RowSpan keys = job.keys.in_pairs();
    const int64_t far = keys.ahead<float>(FewRowsValues::keys_ahead(pairs));
    const int64_t score_stride = job.tile.stride;
    const int64_t stream_keys = job.tile.keys / block * 3;
    for (int64_t j = 0; j < stream_keys; j += 3) {
      score_keys<registers, block>(job.query, keys.row(j), keys.stride, far, stream_keys, pairs,
                                   job.tile.scores + j * score_stride, score_stride);
    }
    const int64_t streamed = stream_keys * (block / 3);
    for_each_rest_block<block>(streamed, job.tile.keys, [&](auto count, int64_t j) FOVEA_INLINE_BODY {
      score_keys<registers, decltype(count)::value>(job.query, keys.row(j), keys.stride, far, 3, pairs,
                                                    job.tile.scores + j * score_stride, score_stride);
    });
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const int64_t pairs = job.problem.sizes.compared_dim / 2;
    with_vectors(ceil_div(job.table.count, parts),
                 [&](auto registers) FOVEA_INLINE_BODY { score_streams<decltype(registers)::value>(job, pairs); });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
