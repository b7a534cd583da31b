// Additive (and concat): scores[key][row] = sum_u v[u] tanh(query[u][row] + key[key][u]), on projected queries and
// prepared keys; method and error in additive_units.hpp.
//
// Bound: for four units of a register 16 additions, products and multiply-adds and one estimate of a reciprocal. Where
// all share two ports (Intel; AVX-512's estimate takes three slots) that is 19 slots with AVX-512, 17 with AVX2. Zen 4
// does the 4 additions on ports of their own and the estimate in two slots (AVX2: one), which leaves 14 and 13. A
// division would be no better: one of 512 bits takes 10 to 16 cycles, the estimate and Newton's step 2.5 to 4.
// Blocks are one register of rows by several keys: each load of a query's registers serves all the keys of a block, and
// a key's unit is broadcast by the addition that uses it. That is not only fewer instructions: with one full-width load
// for each multiply-add the core ran at a lower clock (measured with AVX-512 on an Intel machine: 18.0 giga-units a
// second against 21.4 with a quarter of the loads).
#pragma once

#if defined(__AVX2__)
#include "beyond_xsimd/sum_four.hpp"
#endif
#include "kernels/additive_units.hpp"
#include "kernels/attention_rows_path.hpp"
#include "kernels/attention_tile_path.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct AdditiveTile : TileValues {
  // Units of a pass over the tile: they and the keys' stay in the first-level cache.
  static constexpr int64_t chunk = 32;
  static constexpr int key_block = has_32_registers ? 8 : 4;

  // The rows' reaches, then the queries' exponentials, then those times the weights; of a row that has none its units.
  static constexpr int64_t query_floats(int64_t head_dim) { return (2 * padded_units(head_dim) + 1) * tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t units = padded_units(problem.head_dim);
    float *first = query + tile_rows;
    transpose_queries(table, units, first);
    for (int64_t r = 0; r < table.vectors * lanes; r += lanes) {
      Reach reach;
      for (int64_t u = 0; u < units; ++u) reach.take(load(first + u * tile_rows + r));
      const Float value = reach.of_lanes(problem.least_reach);
      store(query + r, value);
      const Mask exponentials = value <= splat(largest_reach);
      for (int64_t u = 0; u < units; ++u) {
        float *at = first + u * tile_rows + r;
        const Float unit = load(at);
        const Float exponential = query_exponential(unit);
        store(at, choose(exponentials, exponential, unit));
        store(at + units * tile_rows, exponential * splat(problem.score_vector[u]));
      }
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const int64_t units = padded_units(job.problem.head_dim);
    Float reach = load(job.query);
    for (int64_t v = 1; v < job.tile.vectors; ++v) reach = larger(load(job.query + v * lanes), reach);
    const float band_reach = horizontal_max(reach);
    for (int64_t u = 0; u < units; u += chunk) score_chunk(job, band_reach, u, min_of(chunk, units - u));
  }

 private:
  FOVEA_INLINE static void score_chunk(const ScoreJob<tile_rows> &job, float band_reach, int64_t u, int64_t units) {
    const ScoreTile &tile = job.tile;
    const auto shared = [&](int64_t j)
                            FOVEA_INLINE_BODY { return unit_form(band_reach, job.fact(j)) == UnitForm::shared; };
    int64_t j = 0;
    while (j < tile.keys) {
      if (u == 0) job.next.fetch(j, key_block);
      int64_t count = 0;
      while (count < key_block && j + count < tile.keys && shared(j + count)) ++count;
      if (count == key_block) {
        score_keys<key_block>(job, j, u, units);
        j += key_block;
        continue;
      }
      if (count > 0) {
        score_keys<1>(job, j, u, units);
      } else {
        score_mixed(job, j, u, units);
      }
      ++j;
    }
  }

  // The score of a register's rows after a chunk: sum of v - 2 sum; later chunks subtract the rest.
  FOVEA_INLINE static Float subtract(const ScoreJob<tile_rows> &job, int64_t u, const Float &before, const Float &sum) {
    return multiply_add(sum, splat(-2.0f), u == 0 ? splat(job.problem.score_vector_sum) : before);
  }

  // w / d of a chunk's units, four of which share a reciprocal, for `keys` keys.
  template <int keys>
  FOVEA_INLINE static void sum_shared(const ScoreJob<tile_rows> &job, int64_t j, int64_t v, int64_t u, int64_t units,
                                      Float (&sum)[keys]) {
    const int64_t key_stride = job.problem.key_strides.position;
    const int64_t to_weighted = padded_units(job.problem.head_dim) * tile_rows;
    const float *key = job.keys + j * key_stride + u;
    const float *query = job.query + (u + 1) * tile_rows + v * lanes;
    unroll<keys>([&](auto y) FOVEA_INLINE_BODY { sum[y] = zero(); });
    for (int64_t i = 0; i < units; i += units_at_once) {
      Float g[units_at_once];
      Float w[units_at_once];
      unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
        g[k] = load(query + (i + k) * tile_rows);
        w[k] = load(query + (i + k) * tile_rows + to_weighted);
      });
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
        Float d[units_at_once];
        unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY { d[k] = g[k] + splat(key[y * key_stride + i + k]); });
        sum[y] = add_quotients(w, d, sum[y]);
      });
    }
  }

  template <int keys>
  FOVEA_NOINLINE static void score_keys(const ScoreJob<tile_rows> &job, int64_t j, int64_t u, int64_t units) {
    for (int64_t v = 0; v < job.tile.vectors; ++v) {
      Float sum[keys];
      sum_shared(job, j, v, u, units, sum);
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
        float *at = job.tile.scores + (j + y) * tile_rows + v * lanes;
        store(at, subtract(job, u, u == 0 ? zero() : load(at), sum[y]));
      });
    }
  }

  // w / d of a chunk's units, a reciprocal for each.
  FOVEA_INLINE static Float sum_single(const ScoreJob<tile_rows> &job, int64_t j, int64_t v, int64_t u, int64_t units) {
    const float *key = job.keys + j * job.problem.key_strides.position + u;
    const float *query = job.query + (u + 1) * tile_rows + v * lanes;
    Float sum = zero();
    for (int64_t i = 0; i < units; ++i) {
      const Float g = load(query + i * tile_rows);
      sum = multiply_add(splat(job.problem.score_vector[u + i]), g * reciprocal(g + splat(key[i])), sum);
    }
    return sum;
  }

  // sum plus v tanh of a chunk's units.
  FOVEA_INLINE static Float add_direct(const ScoreJob<tile_rows> &job, bool query_is_exponential, int64_t j, int64_t v,
                                       int64_t u, int64_t units, Float sum) {
    const float *key = job.keys + j * job.problem.key_strides.position + u;
    const float *query = job.query + (u + 1) * tile_rows + v * lanes;
    const bool key_is_exponential = job.fact(j) <= largest_reach;
    const int64_t present = min_of(units, job.problem.head_dim - u);  // 0 * infinity must not come from padding
    for (int64_t i = 0; i < present; ++i) {
      const Float value =
          tanh_of_sum(load(query + i * tile_rows), query_is_exponential, splat(key[i]), key_is_exponential);
      sum = multiply_add(splat(job.problem.score_vector[u + i]), value, sum);
    }
    return sum;
  }

  // One key whose reach or some row's asks for another form: each row gets what it and the key ask for, so that no
  // score depends on which rows it is computed with.
  FOVEA_NOINLINE static void score_mixed(const ScoreJob<tile_rows> &job, int64_t j, int64_t u, int64_t units) {
    const Float key_reach = splat(job.fact(j));
    for (int64_t v = 0; v < job.tile.vectors; ++v) {
      const Float query_reach = load(job.query + v * lanes);
      const Float reach = larger(query_reach, key_reach);
      const Mask shared = reach <= splat(shared_reach);
      const Mask exponentials = reach <= splat(largest_reach);
      const Mask query_exponentials = query_reach <= splat(largest_reach);
      float *at = job.tile.scores + j * tile_rows + v * lanes;
      const Float before = u == 0 ? zero() : load(at);
      Float score = before;
      const auto take = [&](const Mask &rows, const auto &value) FOVEA_INLINE_BODY {
        if (xsimd::any(rows)) score = choose(rows, value(), score);
      };
      take(shared, [&]() FOVEA_INLINE_BODY {
        Float sum[1];
        sum_shared(job, j, v, u, units, sum);
        return subtract(job, u, before, sum[0]);
      });
      take(exponentials & ~shared,
           [&]() FOVEA_INLINE_BODY { return subtract(job, u, before, sum_single(job, j, v, u, units)); });
      take(query_exponentials & ~exponentials,
           [&]() FOVEA_INLINE_BODY { return add_direct(job, true, j, v, u, units, before); });
      take(~query_exponentials, [&]() FOVEA_INLINE_BODY { return add_direct(job, false, j, v, u, units, before); });
      store(at, score);
    }
  }
};

// Few rows: lanes are units. Bound by the bytes of the prepared keys, or by the same instructions when they are in
// cache. A tile is checked at once for keys and rows that ask for another form: one key after the other, the checks took
// a sixth of the time.
struct AdditiveRows : RowValues {
  static constexpr int streams = 4;  // keys at once, a quarter of the tile apart

  // The rows' reaches, then for each row its exponentials and those times the weights, or its units.
  static constexpr int64_t query_floats(int64_t head_dim) { return (2 * padded_units(head_dim) + 1) * tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t units = padded_units(problem.head_dim);
    for (int64_t r = 0; r < table.count; ++r) {
      const float *from = table.query[r];
      float *to = query + tile_rows + r * 2 * units;
      Reach reach;
      for (int64_t u = 0; u < units; u += lanes) {
        const Float unit = load(from + u);
        const Float exponential = query_exponential(unit);
        reach.take(unit);
        store(to + u, exponential);
        store(to + units + u, exponential * load(problem.score_vector + u));
      }
      query[r] = reach.of_all(problem.least_reach);
      if (!(query[r] <= largest_reach)) memcpy(to, from, static_cast<size_t>(units) * sizeof(float));
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    if (!all_shared(job)) return score_one_by_one(job);
    const int64_t ahead = keys_ahead(padded_units(job.problem.head_dim)) * job.problem.key_strides.position;
    const int64_t stream_keys = job.tile.keys / streams;
    for (int64_t j = 0; j < stream_keys; ++j) {
      score_keys(job, {j, j + stream_keys, j + 2 * stream_keys, j + 3 * stream_keys}, ahead);
    }
    if (stream_keys * streams < job.tile.keys) score_rest(job, stream_keys * streams, ahead);
  }

 private:
  FOVEA_INLINE static const float *key_of(const ScoreJob<tile_rows> &job, int64_t j) {
    return job.keys + j * job.problem.key_strides.position;
  }
  FOVEA_INLINE static float *score_of(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    return job.tile.scores + j * job.tile.stride + r;
  }
  FOVEA_INLINE static const float *query_of(const ScoreJob<tile_rows> &job, int64_t r) {
    return job.query + tile_rows + r * 2 * padded_units(job.problem.head_dim);
  }

  struct KeyIndices {
    int64_t at[streams];
  };

  FOVEA_INLINE static void score_keys(const ScoreJob<tile_rows> &job, const KeyIndices &index, int64_t ahead) {
    const float *key[streams];
    unroll<streams>([&](auto i) FOVEA_INLINE_BODY { key[i] = key_of(job, index.at[i]); });
    for (int64_t r = 0; r < job.table.count; ++r) {
      Float sum[streams];
      float scores[streams];
      sum_shared(job, key, r, ahead, sum);
      finish(job, sum, scores);
      unroll<streams>([&](auto i) FOVEA_INLINE_BODY { *score_of(job, index.at[i], r) = scores[i]; });
    }
  }

  // The tile's last keys, fewer than there are streams.
  FOVEA_NOINLINE static void score_rest(const ScoreJob<tile_rows> &job, int64_t first, int64_t ahead) {
    const int64_t last = job.tile.keys - 1;
    score_keys(job, {first, min_of(first + 1, last), min_of(first + 2, last), last}, ahead);
  }

  FOVEA_INLINE static bool all_shared(const ScoreJob<tile_rows> &job) {
    const float *facts = job.key_facts + job.tile.key;
    Float reach = load_partial(job.query, job.table.count);
    int64_t j = 0;
    for (; j + lanes <= job.tile.keys; j += lanes) reach = larger(load(facts + j), reach);
    if (j < job.tile.keys) reach = larger(load_partial(facts + j, job.tile.keys - j), reach);
    return xsimd::all(reach <= splat(shared_reach));
  }

  // A tile with a key or a row that asks for another form.
  FOVEA_NOINLINE static void score_one_by_one(const ScoreJob<tile_rows> &job) {
    for (int64_t j = 0; j < job.tile.keys; ++j) {
      for (int64_t r = 0; r < job.table.count; ++r) {
        switch (unit_form(job.query[r], job.fact(j))) {
          case UnitForm::shared: {
            const float *key[] = {key_of(job, j)};
            Float sum[1];
            sum_shared(job, key, r, 0, sum);
            *score_of(job, j, r) = finish_one(job, sum[0]);
            break;
          }
          case UnitForm::single: *score_of(job, j, r) = finish_one(job, sum_single(job, j, r)); break;
          case UnitForm::direct: *score_of(job, j, r) = horizontal_sum(sum_direct(job, j, r)); break;
        }
      }
    }
  }

  // Scores from sums of w / d.
  FOVEA_INLINE static void finish(const ScoreJob<tile_rows> &job, const Float (&sum)[streams], float *scores) {
#if defined(__AVX2__)
    sum_four(sum, scores);
#else
    Square square;
    unroll<streams>([&](auto i) FOVEA_INLINE_BODY { square.row[i] = sum[i]; });
    store(scores, sum_rows(square));
#endif
    for (int i = 0; i < streams; ++i) scores[i] = job.problem.score_vector_sum - 2.0f * scores[i];
  }
  // In the same order: a score must not depend on the keys it is computed with.
  FOVEA_INLINE static float finish_one(const ScoreJob<tile_rows> &job, const Float &sum) {
    const Float sums[streams] = {sum, sum, sum, sum};
    float scores[streams];
    finish(job, sums, scores);
    return scores[0];
  }

  template <int keys>
  FOVEA_INLINE static void sum_shared(const ScoreJob<tile_rows> &job, const float *const (&key)[keys], int64_t r,
                                      int64_t ahead, Float (&sum)[keys]) {
    const int64_t units = padded_units(job.problem.head_dim);
    const float *query = query_of(job, r);
    const float *weighted = query + units;
    unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
      sum[y] = zero();
      prefetch_row<1>(key[y] + ahead, units);
    });
    int64_t u = 0;
    for (; u + units_at_once * lanes <= units; u += units_at_once * lanes) {
      Float g[units_at_once];
      Float w[units_at_once];
      unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
        g[k] = load(query + u + k * lanes);
        w[k] = load(weighted + u + k * lanes);
      });
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
        Float d[units_at_once];
        unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
          if constexpr (k * lanes % line_floats == 0) prefetch_line<1>(key[y] + u + k * lanes + ahead);
          d[k] = g[k] + load(key[y] + u + k * lanes);
        });
        sum[y] = add_quotients(w, d, sum[y]);
      });
    }
    for (; u < units; u += lanes) {
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
        sum[y] = multiply_add(load(weighted + u), reciprocal(load(query + u) + load(key[y] + u)), sum[y]);
      });
    }
  }

  FOVEA_INLINE static Float sum_single(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const float *key = key_of(job, j);
    const float *query = query_of(job, r);
    Float sum = zero();
    for (int64_t u = 0; u < padded_units(job.problem.head_dim); u += lanes) {
      const Float g = load(query + u);
      sum = multiply_add(load(job.problem.score_vector + u), g * reciprocal(g + load(key + u)), sum);
    }
    return sum;
  }

  FOVEA_INLINE static Float sum_direct(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const float *key = key_of(job, j);
    const float *query = query_of(job, r);
    Float sum = zero();
    for (int64_t u = 0; u < job.problem.head_dim; u += lanes) {
      const int64_t width = min_of(lanes, job.problem.head_dim - u);
      const Float value =
          tanh_of_sum(load(query + u), job.query[r] <= largest_reach, load(key + u), job.fact(j) <= largest_reach);
      const Float product = load(job.problem.score_vector + u) * value;
      alignas(64) float kept[lanes];
      product.store_aligned(kept);
      sum = sum + load_partial(kept, width);  // 0 * infinity must not come from padding
    }
    return sum;
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
