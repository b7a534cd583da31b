// Dot product of few rows of queries with keys of 8 bits, and their values of 8 bits or of 4, by products of bytes
// (AVX-512-VNNI). Widened, they would keep the vector units busy for longer than memory takes to bring them; here a
// product takes four features of a key, or four keys' values, and scales are applied to sums.
//
//   scores   query = unit * (256 * high + low), 16 bits for each row
//            sum[key] = unit * sum of blocks of  scale[key] * (dot of bytes); lanes are 16 keys, transposed four features at a time
//   values   weight * scale of each group of features, likewise 16 bits of the largest of a piece of 192 keys
//            sum[feature] = largest * (dot of bytes over keys); lanes are 16 features of four keys
//            of 4 bits, besides, the sum of  weight * least number  of each group
//
// Products of bytes are of unsigned with signed ones: 8 bits get 128 added, and sums lose 128 times those of the other
// factor; 4 bits are unsigned. Sums are integers, so exact, whatever the runs that keys lie in.
//
// Errors: 2^-16 of the largest number of a query, 2^-16 of a piece's largest weight times scale.
//
// Bound: bytes of keys and values, or products: for each key of 64 features two for each row, and two for its value, of
// which a Zen 5 does two a cycle, a Zen 4 one; beside them go as many loads. With four rows and 128 features that is 16
// or 32 cycles for a key and its value, whose 272 bytes take 26 of a Zen 5's and 50 to 75 of a Zen 4's from memory;
// measured, with factors, softmax and transposes, 40 and, in a cache of a Zen 4, 72.
//
// Where pages are short, memory brings rows at its full rate only if each line of them is asked for some 8 kB before it
// is read, spread over the work: keys two blocks ahead, values a piece ahead, the first piece during the scores before
// it, and the next tile's first keys during the last piece. A loop in these orders over shuffled pages of 16 kB, on one
// core of a Zen 4: 7 to 9 GB/s by hardware's prefetchers alone, 7 (values) to 13 (keys) asked for 4 kB ahead, 17 to 20
// asked for 16 kB ahead.
#pragma once

#include "kernels/attention/dense_tile.hpp"
#include "kernels/scores/byte_factors.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct DotBytesFewRows : FewRowsValues {
  static constexpr bool takes_bytes = true;
  static constexpr int64_t block_keys = 16;
  static constexpr int64_t at_once = 32;  // keys
  static constexpr int64_t block_features = 32;
  static constexpr int64_t most_scales = largest_value_dim / 16 * lanes;  // of a block of keys

  // Several rows read a tile once, too.
  static constexpr int64_t keys_at_once(int64_t rows) { return rows == 1 ? line_keys : tile_keys; }

  static constexpr int64_t few_rows_of(int64_t) { return most_byte_rows; }
  static constexpr int64_t query_floats(int64_t head_dim) { return head_dim * tile_rows; }

  // A row of queries as bytes, and for each block what the sums of bytes begin with.
  struct Query {
    int32_t *high, *low;  // four features each
    int32_t *start_high, *start_low;
    float *unit;
  };
  FOVEA_INLINE static Query query_of(float *query, int64_t head_dim, int64_t row) {
    auto *at = reinterpret_cast<int32_t *>(query + row * head_dim);
    const int64_t quads = head_dim / 4, blocks = head_dim / 16;
    int32_t *behind = at + 2 * quads;
    return {at, at + quads, behind, behind + blocks, reinterpret_cast<float *>(behind + 2 * blocks)};
  }

  // Features that share a scale and what sums begin with: at most a quarter of a row.
  FOVEA_INLINE static int64_t block_of(const RowScales &scales, int64_t dim) {
    return min_of(min_of(scales.features, dim / 4), block_features);
  }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t dim = problem.sizes.compared_dim;
    const int64_t block = block_of(problem.key.scales, dim);
    alignas(64) float row[largest_value_dim];
    for (int64_t r = 0; r < table.count; ++r) {
      widen_rows(table.query[r], problem.query.dtype, 0, 1, dim, row, 0);
      const Query to = query_of(query, dim, r);
      const float raise = scale_query(row, dim, to.unit);
      for (int64_t d = 0, b = 0; d < dim; d += block, ++b) load_block(row + d, block, raise, d / 4, b, to);
    }
  }

  // Makes numbers of a row, times what is returned, those of 16 bits.
  FOVEA_INLINE static float scale_query(float *row, int64_t dim, float *unit) {
    Float largest = zero(), check = zero();
    for (int64_t d = 0; d < dim; d += lanes) {
      largest = larger(largest, xsimd::abs(load(row + d)));
      check = multiply_add(load(row + d), zero(), check);
    }
    const float most = horizontal_max(largest);
    const bool finite = !xsimd::any(xsimd::isnan(check));
    *unit = finite ? most / most_16_bits : NAN;
    if (!finite) fill_run(row, dim, 0.0f);
    if (!finite || most == 0.0f) return 0.0f;
    if (most >= 0x1p-100f) return most_16_bits / most;
    // The quotient would be out of range for the least of numbers.
    for (int64_t d = 0; d < dim; d += lanes) store(row + d, load(row + d) * splat(0x1p100f));
    return most_16_bits / (most * 0x1p100f);
  }

  FOVEA_INLINE static void load_block(const float *row, int64_t block, float factor, int64_t quad, int64_t b,
                                      const Query &to) {
    __m512i high_sum = _mm512_setzero_si512(), low_sum = _mm512_setzero_si512();
    for (int64_t d = 0; d < block; d += lanes) {
      const SplitBytes bytes = split_bytes(_mm512_cvtps_epi32((load(row + d) * Float(factor)).data));
      store_bytes(to.high + quad + d / 4, bytes.high);
      store_bytes(to.low + quad + d / 4, bytes.low);
      high_sum = _mm512_add_epi32(high_sum, bytes.high);
      low_sum = _mm512_add_epi32(low_sum, bytes.low);
    }
    to.start_high[b] = -128 * _mm512_reduce_add_epi32(high_sum);
    to.start_low[b] = -128 * _mm512_reduce_add_epi32(low_sum);
  }

  // sums[row][two blocks of 16 keys] += products of 32 features, of one or two blocks that share scales; turned: of
  // each block of keys, [four features][key]. Two blocks of keys, as each number of the query that is loaded then
  // serves two products.
  template <int blocks, int rows>
  FOVEA_INLINE static void add_features(const __m512i (*turned)[8], const Query *queries, int64_t feature,
                                        const float *scales, float *sums) {
    constexpr int quads = 8 / blocks;
    const int64_t block = feature * blocks / block_features;
    __m512i high[rows * 2 * blocks], low[rows * 2 * blocks];
    unroll<rows * 2 * blocks>([&](auto n) FOVEA_INLINE_BODY {
      high[n] = _mm512_set1_epi32(queries[n / (2 * blocks)].start_high[block + n % (2 * blocks) / 2]);
      low[n] = _mm512_set1_epi32(queries[n / (2 * blocks)].start_low[block + n % (2 * blocks) / 2]);
    });
    unroll<8>([&](auto at) FOVEA_INLINE_BODY {
      unroll<rows>([&](auto r) FOVEA_INLINE_BODY {
        const __m512i high_bytes = _mm512_set1_epi32(queries[r].high[feature / 4 + at]);
        const __m512i low_bytes = _mm512_set1_epi32(queries[r].low[feature / 4 + at]);
        unroll<2>([&](auto k) FOVEA_INLINE_BODY {
          constexpr int n = (decltype(r)::value * blocks + decltype(at)::value / quads) * 2 + decltype(k)::value;
          high[n] = _mm512_dpbusd_epi32(high[n], turned[k][at], high_bytes);
          low[n] = _mm512_dpbusd_epi32(low[n], turned[k][at], low_bytes);
        });
      });
    });
    unroll<2 * rows>([&](auto i) FOVEA_INLINE_BODY {
      constexpr int r = decltype(i)::value / 2, k = decltype(i)::value % 2;
      Float total = load(sums + i * lanes);
      unroll<blocks>([&](auto b) FOVEA_INLINE_BODY {
        constexpr int n = (r * blocks + decltype(b)::value) * 2 + k;
        const Float dot(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high[n], 8), low[n])));
        total = multiply_add(dot, load(scales + k * most_scales + b * lanes), total);
      });
      store(sums + i * lanes, total);
    });
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    if (block_of(job.problem.key.scales, job.problem.sizes.compared_dim) < block_features) return score_blocks<2>(job);
    score_blocks<1>(job);
  }

  // Scales of the block's keys, [group][key], of at least four groups.
  FOVEA_INLINE static void turn_scales(const BytePlaces<at_once> &places, int64_t j, int64_t groups, float *to) {
    for (int64_t g = 0; g < max_of(groups, 4); g += 4) {
      Float four[4];
      unroll<4>([&](auto i) FOVEA_INLINE_BODY { four[i] = places.scales_of_four(j + 4 * i, g, groups); });
      transpose_fours(four);
      unroll<4>([&](auto i) FOVEA_INLINE_BODY { store(to + (g + i) * lanes, four[i]); });
    }
  }

  template <int blocks>
  FOVEA_NOINLINE static void score_blocks(const ScoreJob<tile_rows> &job) {
    const HeadSource &source = *job.keys.source;
    const int64_t dim = job.problem.sizes.compared_dim, rows = job.table.count, keys = job.tile.keys;
    const int64_t groups = dim / job.problem.key.scales.features;
    const int64_t group_features = dim / max_of(groups, 4);
    alignas(64) float sums[most_byte_rows * 2 * lanes];
    alignas(64) float scales[2 * most_scales];
    Query queries[most_byte_rows];
    for (int64_t r = 0; r < rows; ++r) queries[r] = query_of(job.query, dim, r);
    // Those at work, and twice as many behind them. What lies last is asked for, and a share of the values that are
    // read behind the tile.
    BytePlaces<at_once> places[3];
    const auto find = [&](int64_t j) FOVEA_INLINE_BODY {
      if (j < keys) places[j / at_once % 3].find(source, job.tile.key + j, min_of(at_once, keys - j), at_once);
    };
    ValuesAhead values(*job.then, ceil_div(keys, at_once));
    find(0);
    find(at_once);
    for (int64_t j = 0; j < keys; j += at_once) {
      find(j + 2 * at_once);
      const BytePlaces<at_once> &now = places[j / at_once % 3], &next = places[(j / at_once + 2) % 3];
      const bool asks = j + 2 * at_once < keys;
      values.ask_for_share();
      for (int64_t i = 0; asks && i < at_once; i += 8) next.ask_for_scales(i);
      for (int64_t r = 0; r < 2 * rows; ++r) store(sums + r * lanes, zero());
      for (int64_t k = 0; k < 2; ++k) turn_scales(now, k * block_keys, groups, scales + k * most_scales);
      for (int64_t d = 0; d < dim; d += block_features) {
        __m512i turned[2][8];
        unroll<2>([&](auto k) FOVEA_INLINE_BODY { load_quads(now.row + k * block_keys, d, turned[k]); });
        if (asks) {  // every second time a line of a row
          const int64_t first = d / block_features % 2 * block_keys;
          unroll<block_keys>([&](auto i) FOVEA_INLINE_BODY { next.ask_for_row(first + i, d); });
        }
        const float *its = scales + d / group_features * lanes;
        for_each_row_group<2>(rows, [&](auto group, int64_t r) FOVEA_INLINE_BODY {
          add_features<blocks, decltype(group)::value>(turned, queries + r, d, its, sums + 2 * r * lanes);
        });
      }
      for (int64_t r = 0; r < rows; ++r) {
        const Float unit(*queries[r].unit);
        for (int64_t k = 0; k < 2; ++k) {
          float *sum = sums + (2 * r + k) * lanes;
          store(sum, load(sum) * unit);
        }
      }
      for (int64_t k = 0, at = j; k < 2 && at < keys; ++k, at += block_keys) {
        put_scores(sums + k * lanes, rows, job.tile, at, min_of(block_keys, keys - at));
      }
    }
  }

  FOVEA_INLINE static void put_scores(const float *sums, int64_t rows, const ScoreTile &tile, int64_t j,
                                      int64_t count) {
    float *to = tile.scores + j * tile.stride;
    if (tile.stride == 1) return store_partial(to, load(sums), count);
    if (tile.stride == 4) {  // four keys' scores in a register, and what stands beside them stays
      Float four[4] = {load(sums), load(sums + min_of(1, rows - 1) * 2 * lanes),
                       load(sums + min_of(2, rows - 1) * 2 * lanes), load(sums + (rows - 1) * 2 * lanes)};
      turn_to_fours(four);
      const auto rows_there = static_cast<__mmask16>(0x1111 * ((1 << rows) - 1));
      unroll<4>([&](auto i) FOVEA_INLINE_BODY {
        const int64_t left = clamp_to(count - 4 * i, 0, 4);
        _mm512_mask_storeu_ps(to + i * lanes, rows_there & static_cast<__mmask16>((1 << 4 * left) - 1), four[i].data);
      });
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < count; ++k) to[k * tile.stride + r] = sums[r * 2 * lanes + k];
    }
  }

  // `group` rows by `vectors` registers of features, all of one group of features.
  template <int count, int vectors, bool fours>
  FOVEA_INLINE static void add_columns(float *out, int64_t padded, const ValuePlaces &places, const ValuePlaces *next,
                                       int64_t feature, int64_t keys, const ByteFactors &factors, int64_t group,
                                       int64_t row, int64_t rows, const float *rescale) {
    __m512i high[count * vectors], low[count * vectors];
    unroll<count * vectors>([&](auto i) FOVEA_INLINE_BODY {
      high[i] = _mm512_setzero_si512();
      low[i] = _mm512_set1_epi32(factors.start[row + i / vectors][group]);
    });
    const int32_t *bytes = factors.bytes + row * 8 + group;
    // Of each row of the next piece a line, in as many turns as this one's lines are read in.
    constexpr int bytes_of_row = (fours ? 8 : 16) * vectors, asked_rows = bytes_of_row / 16;
    const int64_t at = fours ? feature / 2 : feature;
    const int64_t first = at % line_bytes / bytes_of_row * asked_rows;
    const bool asks = row == 0 && next != nullptr;
    for (int64_t j = 0; j < keys; j += 4, bytes += rows * 8) {
      if (asks) {
        unroll<asked_rows>([&](auto i) FOVEA_INLINE_BODY { next->ask_for_row(j + first + i, at); });
        if (feature == 0) next->ask_for_scales(j);
      }
      __m512i value[vectors];
      if constexpr (fours) {
        join_four_blocks(places.row + j, at, value);
      } else {
        join_four_keys<vectors>(places.row + j, at, value);
      }
      unroll<count>([&](auto r) FOVEA_INLINE_BODY {
        const __m512i high_bytes = _mm512_set1_epi32(bytes[r * 8]), low_bytes = _mm512_set1_epi32(bytes[r * 8 + 4]);
        unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
          constexpr int of = decltype(r)::value * vectors + decltype(v)::value;
          high[of] = _mm512_dpbusd_epi32(high[of], value[v], high_bytes);
          low[of] = _mm512_dpbusd_epi32(low[of], value[v], low_bytes);
        });
      });
    }
    unroll<count>([&](auto r) FOVEA_INLINE_BODY {
      const Float unit(factors.unit[row + r][group]), factor(rescale[row + r]);
      const Float least(fours ? factors.least[row + r][group] : 0.0f);
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        constexpr int of = decltype(r)::value * vectors + decltype(v)::value;
        const Float sum(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high[of], 8), low[of])));
        float *to = out + (row + r) * padded + feature + v * lanes;
        store(to, multiply_add(load(to), factor, fours ? multiply_add(sum, unit, least) : sum * unit));
      });
    });
  }

  // Keys that are masked, whose scales may be anything.
  FOVEA_INLINE static void mark_masked(const ScoreTile &tile, const bool *masked) {
    for (int64_t j = 0; j < tile.keys; ++j) {
      if (masked[j]) tile.scores[j * tile.stride] = -0.0f;
    }
  }

  template <bool fours>
  FOVEA_NOINLINE static void add_piece(float *out, const HeadSource &source, int64_t row_count, const ScoreTile &piece,
                                       const ValuePlaces &places, const ValuePlaces *next, const float *rescale) {
    const int64_t dim = source.dim, given = source.rows.scales.features, groups = dim / given;
    const int64_t features = groups >= 4 ? given : dim / 4;  // of one of at least four groups
    const int64_t step = fours ? max_of(features, 2 * lanes) : features;
    ByteFactors factors;
    for (int64_t d = 0; d < dim; d += step) {
      const int64_t group = d / features;
      if (group % 4 == 0) make_byte_factors<fours>(piece, row_count, places, group, groups, &factors);
      const auto add = [&](auto count, auto vectors, int64_t at, int64_t row) FOVEA_INLINE_BODY {
        add_columns<decltype(count)::value, decltype(vectors)::value, fours>(
            out, dim, places, next, at, piece.keys, factors, group % 4, row, row_count, rescale);
      };
      for_each_row_group<4>(row_count, [&](auto count, int64_t row) FOVEA_INLINE_BODY {
        int64_t at = d;
        for (; at + 2 * lanes <= d + step; at += 2 * lanes) add(count, Index<2>{}, at, row);
        if constexpr (!fours) {
          if (at < d + step) add(count, Index<1>{}, at, row);
        }
      });
    }
  }

  FOVEA_INLINE static void add_values(float *out, const RowSpan &values, int64_t value_dim, int64_t row_count,
                                      const ScoreTile &tile, const float *rescale) {
    // Of the piece at work and of the one that is read next, behind a tile's last that of keys.
    ValuePlaces places[2];
    const HeadSource &source = *values.source;
    places[0].find_piece({&source, tile.key, tile.keys}, 0);
    int64_t at = 0;
    for_each_piece<1>(value_dim, tile, rescale,
                      [&](int64_t j, int64_t, const ScoreTile &piece, const float *factors) FOVEA_INLINE_BODY {
                        const int64_t left = tile.keys - j - piece.keys;
                        const RowsNext rows = left > 0                 ? RowsNext{&source, piece.key + piece.keys, left}
                                              : values.then != nullptr ? *values.then
                                                                       : RowsNext();
                        ValuePlaces &next = places[1 - at];
                        const bool goes_on = next.find_piece(rows, piece.keys) > 0;
                        const auto add = source.rows.in_four_bits() ? add_piece<true> : add_piece<false>;
                        add(out, source, row_count, piece, places[at], goes_on ? &next : nullptr, factors);
                        at = 1 - at;
                      });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
