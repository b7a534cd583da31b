// Dot product of few rows of queries with keys of 8 bits, and their values, by products of bytes (AVX-512-VNNI). Widened, they
// would keep the vector units busy for longer than memory takes to bring them; here a product takes four features of a key, or
// four keys' values, and scales are applied to sums.
//
//   scores   query = unit * (256 * high + low), 16 bits for each row
//            sum[key] = unit * sum of blocks of  scale[key] * (dot of bytes); lanes are 16 keys, transposed four features at a time
//   values   weight * scale of each group of features, likewise 16 bits of the largest of a piece of 192 keys
//            sum[feature] = largest * (dot of bytes over keys); lanes are 16 features of four keys
//
// Products of bytes are of unsigned with signed ones: 8 bits get 128 added, and sums lose 128 times those of the other factor.
// Sums are integers, so exact, whatever the runs that keys lie in.
//
// Errors: 2^-16 of the largest number of a query, 2^-16 of a piece's largest weight times scale.
//
// Bound: bytes of keys and values. For each key of 64 features 4 shuffles and 2 or 3 products for each row, the same for values.
#pragma once

#include "beyond_xsimd/bytes_vnni.hpp"
#include "kernels/attention/dense_tile.hpp"
#include "kernels/attention/few_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr float most_16_bits = 127 * 256;

struct DotBytesFewRows : FewRowsValues {
  static constexpr bool takes_bytes = true;
  static constexpr int64_t block_keys = 16;
  static constexpr int64_t block_features = 64;
  static constexpr int64_t asked_ahead = 96;  // keys

  static constexpr int64_t most_rows_taken = 16;
  // Several rows read a tile once, too.
  static constexpr int64_t keys_at_once(int64_t rows) { return rows == 1 ? line_keys : tile_keys; }

  static constexpr int64_t few_rows_of(int64_t) { return most_rows_taken; }
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

  // Where keys or values lie, and their scales. Behind the last of `count` it is found again.
  template <int64_t most>
  struct Places {
    const int8_t *row[most];
    const Float16 *scales[most];
    int64_t packed;  // so many rows' scales, four of each, lie one after the other

    FOVEA_INLINE void find(const HeadSource &source, int64_t first, int64_t count, int64_t padded) {
      int64_t n = 0;
      source.rows.for_each_run(source.batch, source.head, first, count,
                               [&](const RowRun &run, int64_t) FOVEA_INLINE_BODY {
                                 const auto *its = static_cast<const int8_t *>(run.first);
                                 const Float16 *its_scales = run.scales;
                                 const int64_t apart = source.rows.scales.strides.position;
                                 for (int64_t j = 0; j < run.count; ++j, ++n, its += run.stride, its_scales += apart) {
                                   row[n] = its;
                                   scales[n] = its_scales;
                                 }
                               });
      const bool of_four = source.dim == 4 * source.rows.scales.features;
      packed = source.evenly_spaced() && of_four && source.rows.scales.strides.position == 4 ? count / 4 * 4 : 0;
      for (; n < padded; ++n) {
        row[n] = row[n - 1];
        scales[n] = scales[n - 1];
      }
    }

    // Scales of four groups from `group` on, of four rows: [row][group].
    FOVEA_INLINE Float scales_of_four(int64_t j, int64_t group, int64_t groups) const {
      if (j < packed) return load(scales[j]);
      uint64_t four[4];
      for (int64_t i = 0; i < 4; ++i) {
        const Float16 *at = scales[j + i];
        if (groups >= 4) {
          memcpy(&four[i], at + group, sizeof four[i]);
        } else {  // one, or two: as four
          const uint64_t first = at[0].bits, last = at[groups - 1].bits;
          four[i] = first * 0x10001u + (last * 0x10001u << 32);
        }
      }
      return Float(
          _mm512_cvtph_ps(_mm256_setr_epi64x(static_cast<long long>(four[0]), static_cast<long long>(four[1]),
                                             static_cast<long long>(four[2]), static_cast<long long>(four[3]))));
    }
  };

  // sums[row][16 keys] += products of 64 features; T: of 16 keys, four features each.
  template <int blocks>
  FOVEA_INLINE static void add_features(const __m512i *turned, const Query &query, int64_t feature, const float *scales,
                                        float *sum) {
    constexpr int quads = 16 / blocks;
    Float total = load(sum);
    const int32_t *high_bytes = query.high + feature / 4, *low_bytes = query.low + feature / 4;
    const int64_t block = feature * blocks / block_features;
    unroll<blocks>([&](auto b) FOVEA_INLINE_BODY {
      __m512i high = _mm512_set1_epi32(query.start_high[block + b]);
      __m512i low = _mm512_set1_epi32(query.start_low[block + b]);
      unroll<quads>([&](auto i) FOVEA_INLINE_BODY {
        constexpr int at = decltype(b)::value * quads + decltype(i)::value;
        high = _mm512_dpbusd_epi32(high, turned[at], _mm512_set1_epi32(high_bytes[at]));
        low = _mm512_dpbusd_epi32(low, turned[at], _mm512_set1_epi32(low_bytes[at]));
      });
      const Float dot(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low)));
      total = multiply_add(dot, load(scales + b * lanes), total);
    });
    store(sum, total);
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const RowScales &scales = job.problem.key.scales;
    switch (block_features / block_of(scales, job.problem.sizes.compared_dim)) {
      case 1: return score_blocks<1>(job);
      case 2: return score_blocks<2>(job);
      default: return score_blocks<4>(job);
    }
  }

  // Scales of the block's keys, [group][key], of at least four groups.
  FOVEA_INLINE static void turn_scales(const Places<block_keys> &places, int64_t groups, float *to) {
    for (int64_t g = 0; g < max_of(groups, 4); g += 4) {
      Float four[4];
      unroll<4>([&](auto i) FOVEA_INLINE_BODY { four[i] = places.scales_of_four(4 * i, g, groups); });
      transpose_fours(four);
      unroll<4>([&](auto i) FOVEA_INLINE_BODY { store(to + (g + i) * lanes, four[i]); });
    }
  }

  template <int blocks>
  FOVEA_NOINLINE static void score_blocks(const ScoreJob<tile_rows> &job) {
    const HeadSource &source = *job.keys.source;
    const int64_t dim = job.problem.sizes.compared_dim, rows = job.table.count;
    const int64_t groups = dim / job.problem.key.scales.features;
    // Columns of 64 features that share scales: more than one only where a column is one block.
    const int64_t columns = blocks > 1 ? 1 : dim / max_of(groups, 4) / block_features;
    const int64_t far = source.evenly_spaced() ? asked_ahead * source.stride : 0;
    alignas(64) float sums[most_rows_taken * lanes];
    alignas(64) float scales[largest_value_dim / 16 * lanes];
    Query queries[most_rows_taken];
    for (int64_t r = 0; r < rows; ++r) queries[r] = query_of(job.query, dim, r);
    Places<block_keys> places;
    for (int64_t j = 0; j < job.tile.keys; j += block_keys) {
      const int64_t count = min_of(block_keys, job.tile.keys - j);
      places.find(source, job.tile.key + j, count, block_keys);
      for (int64_t r = 0; r < rows; ++r) store(sums + r * lanes, zero());
      turn_scales(places, groups, scales);
      const float *its = scales;
      int64_t left = columns;
      for (int64_t d = 0; d < dim; d += block_features) {
        __m512i turned[16];
        unroll<16>([&](auto i) FOVEA_INLINE_BODY {
          const int8_t *at = places.row[i] + d;
          __builtin_prefetch(at + far, 0, 2);
          turned[i] = unsigned_bytes(_mm512_loadu_si512(at));
        });
        transpose_quads(turned);
        for (int64_t r = 0; r < rows; ++r) add_features<blocks>(turned, queries[r], d, its, sums + r * lanes);
        if (--left > 0) continue;
        left = columns;
        its += blocks * lanes;
      }
      for (int64_t r = 0; r < rows; ++r) store(sums + r * lanes, load(sums + r * lanes) * Float(*queries[r].unit));
      put_scores(sums, rows, job.tile, j, count);
    }
  }

  FOVEA_INLINE static void put_scores(const float *sums, int64_t rows, const ScoreTile &tile, int64_t j,
                                      int64_t count) {
    float *to = tile.scores + j * tile.stride;
    if (tile.stride == 1) return store_partial(to, load(sums), count);
    if (tile.stride == 4) {  // four keys' scores in a register, and what stands beside them stays
      Float four[4] = {load(sums), load(sums + min_of(1, rows - 1) * lanes), load(sums + min_of(2, rows - 1) * lanes),
                       load(sums + (rows - 1) * lanes)};
      turn_to_fours(four);
      const auto rows_there = static_cast<__mmask16>(0x1111 * ((1 << rows) - 1));
      unroll<4>([&](auto i) FOVEA_INLINE_BODY {
        const int64_t left = clamp_to(count - 4 * i, 0, 4);
        _mm512_mask_storeu_ps(to + i * lanes, rows_there & static_cast<__mmask16>((1 << 4 * left) - 1), four[i].data);
      });
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < count; ++k) to[k * tile.stride + r] = sums[r * lanes + k];
    }
  }

  // The weights of a piece's keys times the scales of four groups, as bytes.
  struct Factors {
    static constexpr int64_t most_quads = value_keys / 4;
    // [four keys][row][high, low][group], four keys' bytes each
    alignas(64) int32_t bytes[most_quads * most_rows_taken * 8];
    alignas(16) float unit[most_rows_taken][4];
    alignas(16) int32_t start[most_rows_taken][4];
  };

  // Weights of keys j to j + 3 of a row in lanes [key][group]; from the piece's end on -0, which marks keys that are not there.
  FOVEA_INLINE static Float four_weights(const ScoreTile &tile, int64_t j, int64_t row, const __m512i &places) {
    const int64_t left = tile.keys - j;
    const __mmask16 there = left >= 4 ? __mmask16{0xffff} : static_cast<__mmask16>((1 << 4 * left) - 1);
    const float *from = tile.scores + j * tile.stride;
    const __m512 none = _mm512_set1_ps(-0.0f);
    if (tile.stride <= 4) return Float(_mm512_mask_permutexvar_ps(none, there, places, _mm512_loadu_ps(from)));
    alignas(16) float four[4] = {};
    for (int64_t i = 0; i < min_of(left, 4); ++i) four[i] = from[i * tile.stride + row];
    return Float(_mm512_mask_permutexvar_ps(none, there, places, _mm512_castps128_ps512(_mm_load_ps(four))));
  }

  FOVEA_NOINLINE static void make_factors(const ScoreTile &tile, int64_t rows, const Places<value_keys> &places,
                                          int64_t group, int64_t groups, Factors *to) {
    alignas(64) float scales[value_keys * 4], products[value_keys * 4];
    for (int64_t j = 0; j < tile.keys; j += 4) store(scales + 4 * j, places.scales_of_four(j, group, groups));
    for (int64_t r = 0; r < rows; ++r) {
      const __m512i key_of_lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
      const auto stride = static_cast<int>(tile.stride);
      const __m512i at = tile.stride > 4 ? key_of_lane
                                         : _mm512_add_epi32(_mm512_mullo_epi32(key_of_lane, _mm512_set1_epi32(stride)),
                                                            _mm512_set1_epi32(static_cast<int>(r)));
      const auto factor_of = [&](int64_t j) FOVEA_INLINE_BODY {
        const __m512 weight = four_weights(tile, j, r, at).data;
        const __mmask16 counts =
            _mm512_cmpneq_epi32_mask(_mm512_castps_si512(weight), _mm512_castps_si512(_mm512_set1_ps(-0.0f)));
        return _mm512_maskz_mul_ps(counts, weight, load(scales + 4 * j).data);
      };
      // As bits, numbers that are not finite are the largest.
      __m512i most = _mm512_setzero_si512();
      for (int64_t j = 0; j < tile.keys; j += 4) {
        const __m512 factor = factor_of(j);
        _mm512_store_ps(products + 4 * j, factor);
        most = _mm512_max_epi32(most, _mm512_castps_si512(_mm512_abs_ps(factor)));
      }
      const __m512 largest = over_keys(_mm512_castsi512_ps(most), [](__m512 a, __m512 b) FOVEA_INLINE_BODY {
        return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
      });
      // Below 2^-100 nothing is left of it beside other pieces, which have a weight of about 1 among them, or are as small.
      const __m512 check = _mm512_mul_ps(largest, _mm512_setzero_ps());  // NaN or 0
      const __mmask16 some = _mm512_cmp_ps_mask(largest, _mm512_set1_ps(0x1p-100f), _CMP_GE_OQ) &
                             _mm512_cmp_ps_mask(check, check, _CMP_ORD_Q);
      const __m512 inverse = _mm512_maskz_div_ps(some, _mm512_set1_ps(most_16_bits), largest);
      const __m512 unit = _mm512_add_ps(_mm512_maskz_mul_ps(some, largest, _mm512_set1_ps(1 / most_16_bits)), check);
      _mm_store_ps(to->unit[r], _mm512_castps512_ps128(unit));
      __m512i sum = _mm512_setzero_si512();
      for (int64_t j = 0; j < tile.keys; j += 4) {
        const __m512i number = _mm512_maskz_cvtps_epi32(some, _mm512_mul_ps(_mm512_load_ps(products + 4 * j), inverse));
        sum = _mm512_add_epi32(sum, number);
        store_quads(to->bytes + (j / 4 * rows + r) * 8, number);
      }
      const __m512 all = over_keys(_mm512_castsi512_ps(sum), [](__m512 a, __m512 b) FOVEA_INLINE_BODY {
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
      });
      const __m512i start = _mm512_mullo_epi32(_mm512_castps_si512(all), _mm512_set1_epi32(-128));
      _mm_store_si128(reinterpret_cast<__m128i *>(to->start[r]), _mm512_castsi512_si128(start));
    }
  }

  // `group` rows by `vectors` registers of features, all of one group of features.
  template <int count, int vectors>
  FOVEA_INLINE static void add_columns(float *out, int64_t padded, const Places<value_keys> &places, int64_t feature,
                                       int64_t keys, const Factors &factors, int64_t group, int64_t row, int64_t rows,
                                       int64_t far, const float *rescale) {
    __m512i high[count * vectors], low[count * vectors];
    unroll<count * vectors>([&](auto i) FOVEA_INLINE_BODY {
      high[i] = _mm512_setzero_si512();
      low[i] = _mm512_set1_epi32(factors.start[row + i / vectors][group]);
    });
    const int32_t *bytes = factors.bytes + row * 8 + group;
    const bool asks = row == 0 && feature % line_bytes == 0;
    for (int64_t j = 0; j < keys; j += 4, bytes += rows * 8) {
      if (asks) {
        unroll<4>([&](auto i) FOVEA_INLINE_BODY { __builtin_prefetch(places.row[j + i] + feature + far, 0, 2); });
      }
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        constexpr int v_index = decltype(v)::value;
        const int64_t d = feature + v_index * lanes;
        const __m512i value = unsigned_bytes(
            join_four_keys(places.row[j] + d, places.row[j + 1] + d, places.row[j + 2] + d, places.row[j + 3] + d));
        unroll<count>([&](auto r) FOVEA_INLINE_BODY {
          constexpr int at = decltype(r)::value * vectors + v_index;
          high[at] = _mm512_dpbusd_epi32(high[at], value, _mm512_set1_epi32(bytes[r * 8]));
          low[at] = _mm512_dpbusd_epi32(low[at], value, _mm512_set1_epi32(bytes[r * 8 + 4]));
        });
      });
    }
    unroll<count>([&](auto r) FOVEA_INLINE_BODY {
      const Float unit(factors.unit[row + r][group]), factor(rescale[row + r]);
      unroll<vectors>([&](auto v) FOVEA_INLINE_BODY {
        constexpr int at = decltype(r)::value * vectors + decltype(v)::value;
        const Float sum(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high[at], 8), low[at])));
        float *to = out + (row + r) * padded + feature + v * lanes;
        store(to, multiply_add(load(to), factor, sum * unit));
      });
    });
  }

  // Keys that are masked, whose scales may be anything.
  FOVEA_INLINE static void mark_masked(const ScoreTile &tile, const bool *masked) {
    for (int64_t j = 0; j < tile.keys; ++j) {
      if (masked[j]) tile.scores[j * tile.stride] = -0.0f;
    }
  }

  FOVEA_NOINLINE static void add_piece(float *out, const HeadSource &source, int64_t row_count, const ScoreTile &piece,
                                       const float *rescale) {
    const int64_t dim = source.dim, given = source.rows.scales.features, groups = dim / given;
    const int64_t features = groups >= 4 ? given : dim / 4;  // of one of at least four groups
    Places<value_keys> places;
    places.find(source, piece.key, piece.keys, round_up(piece.keys, 4));
    const int64_t far = source.evenly_spaced() ? value_keys * source.stride : 0;
    Factors factors;
    for (int64_t d = 0; d < dim; d += features) {
      const int64_t group = d / features;
      if (group % 4 == 0) make_factors(piece, row_count, places, group, groups, &factors);
      const auto add = [&](auto count, auto vectors, int64_t at, int64_t row) FOVEA_INLINE_BODY {
        add_columns<decltype(count)::value, decltype(vectors)::value>(out, dim, places, at, piece.keys, factors,
                                                                      group % 4, row, row_count, far, rescale);
      };
      for_each_row_group<4>(row_count, [&](auto count, int64_t row) FOVEA_INLINE_BODY {
        int64_t at = d;
        for (; at + 2 * lanes <= d + features; at += 2 * lanes) add(count, Index<2>{}, at, row);
        if (at < d + features) add(count, Index<1>{}, at, row);
      });
    }
  }

  FOVEA_INLINE static void add_values(float *out, const RowSpan &values, int64_t value_dim, int64_t row_count,
                                      const ScoreTile &tile, const float *rescale) {
    for_each_piece<1>(value_dim, tile, rescale,
                      [&](int64_t, int64_t, const ScoreTile &piece, const float *factors)
                          FOVEA_INLINE_BODY { add_piece(out, *values.source, row_count, piece, factors); });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
