// Scores of few rows that are sums over the features, for every score function that has such (attention/few_rows.hpp):
// streams of keys, each key once, sums of a register's worth of query-key pairs, or of three, kept at once and reduced together.
#pragma once

#include "beyond_xsimd/bytes.hpp"
#include "kernels/attention/few_rows.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Features::add(key, query, sum) adds a register of features, Features::finish(sum) makes the score of the sum.
// Features::takes_numbers: of keys of 8 bits with scales, too; calls of other score functions have none
// (ops/attention/call.hpp).
template <class Features>
struct FeatureRows : FewRowsValues {
  static constexpr int64_t query_floats(int64_t head_dim) { return round_up(head_dim, lanes) * tile_rows; }

  // query[row][d], padded with zeros to whole registers.
  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t head_dim = problem.sizes.compared_dim;
    const int64_t padded = round_up(head_dim, lanes);
    with_element(problem.query.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      for (int64_t r = 0; r < table.count; ++r) {
        float *to = query + r * padded;
        const auto *from = static_cast<const typename T::Element *>(table.query[r]);
        int64_t d = 0;
        for (; d + lanes <= head_dim; d += lanes) store(to + d, load(from + d));
        if (d < head_dim) store(to + d, load_partial(from + d, head_dim - d));
      }
    });
  }

  // As many features as each lane may sum in one chain (feature_chain); with wide registers that is all there can be.
  static constexpr int64_t chain = 64 * lanes;
  static constexpr bool one_chain = chain >= 1024;

  template <class Element, int group>
  FOVEA_INLINE static void score_group(const float *query, RowSpan keys, int64_t head_dim, int64_t row, Pass pass,
                                       ScoreTile tile) {
    // Keys with scales are too many pointers for as many streams.
    constexpr bool turns = in_turns && !same_type<Element, int8_t>;
    // Four rows: two times three keys, whose twelve sums wait for each other less than eight would. Only where it is worth
    // its code: for the score function that keys of 8 bits are for, too.
    constexpr bool by_threes = turns && group == 4 && requires { Features::takes_numbers; };
    constexpr int keys_at_once = by_threes ? 6 : static_cast<int>(lanes) / group;
    constexpr int streams = by_threes ? 3 : turns ? keys_at_once : min_of(4, keys_at_once);
    constexpr int squares = keys_at_once * group / static_cast<int>(lanes);
    constexpr Ask ask_for_keys = ask_for<turns>(group);
    const int64_t padded = round_up(head_dim, lanes);
    const int64_t whole = head_dim / lanes * lanes;
    const int64_t far = keys.template ahead<Element>(keys_ahead<turns>(head_dim));
    const int64_t stream_keys = ceil_div(tile.keys, streams);
    for (int64_t j = 0; j < stream_keys; j += keys_at_once / streams) {
      const int64_t ahead = pass.template asks_at<group>(j) ? far : 0;
      // The i-th of those at once; past the tile's end its last key again.
      const auto key_index = [&](int i) FOVEA_INLINE_BODY {
        return min_of(i % streams * stream_keys + j + i / streams, tile.keys - 1);
      };
      const auto sum_features = [&](int64_t begin, int64_t end, Float *totals) FOVEA_INLINE_BODY {
        Square sums[squares];
        unroll<squares * lanes>([&](auto i) FOVEA_INLINE_BODY { sums[i / lanes].row[i % lanes] = zero(); });
        unroll<keys_at_once / streams>([&](auto turn) FOVEA_INLINE_BODY {
          constexpr int first = decltype(turn)::value * streams;
          const Element *key[streams];
          [[maybe_unused]] const float *scales[streams];
          unroll<streams>([&](auto i) FOVEA_INLINE_BODY {
            key[i] = keys.row_of<Element>(key_index(first + i));
            scales[i] = keys.scales + key_index(first + i) * keys.scales_of_row;
            if (begin == 0) prefetch_row<ask_for_keys>(key[i] + ahead, head_dim);
          });
          // So many registers of each key; load_key(i, at, k) loads them.
          const auto add = [&](auto registers, int64_t d, const auto &load_key) FOVEA_INLINE_BODY {
            constexpr int count = decltype(registers)::value;
            if constexpr (by_threes) {  // a query's register goes before the next one comes
              static_assert(count == 1);
              Float k[streams];
              unroll<streams>([&](auto i) FOVEA_INLINE_BODY { load_key(i, d, k + i); });
              unroll<group>([&](auto r) FOVEA_INLINE_BODY {
                const Float its = load(query + (row + r) * padded + d);
                unroll<streams>([&](auto i) FOVEA_INLINE_BODY {
                  constexpr int at = (first + decltype(i)::value) * group + decltype(r)::value;
                  Float &sum = sums[at / lanes].row[at % lanes];
                  sum = Features::add(k[i], its, sum);
                });
              });
              return;
            }
            Float q[count * group];
            unroll<count * group>([&](auto r) FOVEA_INLINE_BODY {
              q[r] = load(query + (row + r / count) * padded + d + r % count * lanes);
            });
            unroll<streams>([&](auto i) FOVEA_INLINE_BODY {
              Float k[count];
              load_key(i, d, k);
              unroll<count * group>([&](auto r) FOVEA_INLINE_BODY {
                constexpr int of = (first + decltype(i)::value) * group;
                constexpr int at = of + decltype(r)::value / count;
                Float &sum = sums[at / lanes].row[at % lanes];
                sum = Features::add(k[r % count], q[r], sum);
              });
            });
          };
          const auto ask = [&](int64_t d) FOVEA_INLINE_BODY {
            unroll<streams>([&](auto i) FOVEA_INLINE_BODY { prefetch_line<ask_for_keys>(key[i] + d + ahead); });
          };
          const int64_t last = min_of(end, whole);
          int64_t d = begin;
          if constexpr (same_type<Element, int8_t>) {  // whole blocks, which have one scale each
            const int64_t of_group = head_dim / keys.scales_of_row;
            int64_t g = begin / of_group;
            for (int64_t next = (g + 1) * of_group; d < last; ++g, next += of_group) {
              ask(d);
              for (; d < min_of(next, last); d += lanes) {
                add(Index<1>{}, d, [&](int i, int64_t at, Float *k) FOVEA_INLINE_BODY {
                  *k = Float(load_bytes(key[i] + at)) * splat(scales[i][g]);
                });
              }
            }
            return;
          } else {
            constexpr int64_t line = line_of<Element>;
            constexpr bool by_lines = lanes >= 8;  // else a line would be too many instructions
            for (; by_lines && d + line <= last; d += line) {
              ask(d);
              if constexpr (lanes == line_floats && is_narrow_element<Element>) {
                add(Index<2>{}, d,
                    [&](int i, int64_t at, Float *k) FOVEA_INLINE_BODY { load_two(key[i] + at, &k[0], &k[1]); });
              } else if constexpr (by_lines) {
                unroll<line / lanes>([&](auto v) FOVEA_INLINE_BODY {
                  add(Index<1>{}, d + v * lanes,
                      [&](int i, int64_t at, Float *k) FOVEA_INLINE_BODY { *k = load(key[i] + at); });
                });
              }
            }
            for (; line > lanes && d < last; d += lanes) {
              if (d % line == 0) ask(d);
              add(Index<1>{}, d, [&](int i, int64_t at, Float *k) FOVEA_INLINE_BODY { *k = load(key[i] + at); });
            }
            if (last < end) {
              if (whole % line == 0) ask(whole);
              add(Index<1>{}, whole, [&](int i, int64_t at, Float *k) FOVEA_INLINE_BODY {
                *k = load_partial(key[i] + at, head_dim - whole);
              });
            }
          }
        });
        unroll<squares>([&](auto i) FOVEA_INLINE_BODY { totals[i] = sum_rows(sums[i]); });
      };
      Float sum[squares];
      sum_features(0, one_chain ? head_dim : min_of(chain, head_dim), sum);
      for (int64_t d = chain; !one_chain && d < head_dim; d += chain) {
        Float more[squares];
        sum_features(d, min_of(d + chain, head_dim), more);
        unroll<squares>([&](auto i) FOVEA_INLINE_BODY { sum[i] = sum[i] + more[i]; });
      }
      alignas(64) float reduced[squares * lanes];
      unroll<squares>([&](auto i) FOVEA_INLINE_BODY { store(reduced + i * lanes, Features::finish(sum[i])); });
      unroll<keys_at_once>([&](auto i) FOVEA_INLINE_BODY {
        memcpy(tile.scores + key_index(i) * tile.stride + row, reduced + i * group, group * sizeof(float));
      });
    }
  }

  static void score(const ScoreJob<tile_rows> &job) {
    if constexpr (requires { Features::takes_numbers; }) {
      if (job.keys.dtype == Dtype::i8) return score_rows<int8_t>(job);
    }
    with_element(job.keys.dtype, [&]<class T>(T) FOVEA_INLINE_BODY { score_rows<typename T::Element>(job); });
  }

  template <class Element>
  FOVEA_NOINLINE static void score_rows(const ScoreJob<tile_rows> &job) {
    for_each_row_group<rows_together>(job.table.count, [&](auto group, int64_t row) FOVEA_INLINE_BODY {
      score_group<Element, decltype(group)::value>(job.query, job.keys, job.problem.sizes.compared_dim, row,
                                                   pass_of<rows_together, Element>(row, job.table.count), job.tile);
    });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
