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
    const float least = least_reach(problem.score_vector, units, problem.score_vector_finite);
    for (int64_t r = 0; r < table.vectors * lanes; r += lanes) {
      Reach reach;
      for (int64_t u = 0; u < units; ++u) reach.take(load(first + u * tile_rows + r));
      const Float value = reach.of_lanes(least);
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
// cache.
struct AdditiveRows : RowValues {
  static constexpr int key_block = 4;
  static_assert(lanes % key_block == 0);

  // The rows' reaches, then for each row its exponentials and those times the weights, or its units.
  static constexpr int64_t query_floats(int64_t head_dim) { return (2 * padded_units(head_dim) + 1) * tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t units = padded_units(problem.head_dim);
    const float least = least_reach(problem.score_vector, units, problem.score_vector_finite);
    for (int64_t r = 0; r < table.count; ++r) {
      float *to = query + tile_rows + r * 2 * units;
      memcpy(to, table.query[r], static_cast<size_t>(units) * sizeof(float));
      Reach reach;
      for (int64_t u = 0; u < units; u += lanes) reach.take(load(to + u));
      query[r] = reach.of_all(least);
      if (!(query[r] <= largest_reach)) continue;
      for (int64_t u = 0; u < units; u += lanes) {
        const Float exponential = query_exponential(load(to + u));
        store(to + u, exponential);
        store(to + units + u, exponential * load(problem.score_vector + u));
      }
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const int64_t rows = job.table.count;
    alignas(64) float reduced[lanes];
    float *to[lanes];
    Square sums;
    int64_t filled = 0;
    const auto flush = [&]() FOVEA_INLINE_BODY {
      sum_rows(sums).store_aligned(reduced);
      for (int64_t i = 0; i < filled; ++i) {
        if (to[i] != nullptr) *to[i] = reduced[i];
      }
      filled = 0;
    };
    for (int64_t j = 0; j < job.tile.keys; j += key_block) {
      for (int64_t r = 0; r < rows; ++r) {
        sum_keys(job, j, r, sums.row + filled);
        for (int64_t i = 0; i < key_block; ++i) {
          to[filled + i] = j + i < job.tile.keys ? job.tile.scores + (j + i) * job.tile.stride + r : nullptr;
        }
        filled += key_block;
        if (filled == lanes) flush();
      }
    }
    if (filled > 0) flush();
  }

 private:
  // Lanes that add up to the scores of keys j, j + 1, ... and row r; past the tile's end those of the last key again.
  FOVEA_INLINE static void sum_keys(const ScoreJob<tile_rows> &job, int64_t j, int64_t r, Float *lane_sums) {
    const int64_t last = job.tile.keys - 1;
    bool shared = true;
    for (int64_t i = 0; i < key_block; ++i) shared = shared && form_of(job, min_of(j + i, last), r) == UnitForm::shared;
    Float sum[key_block];
    if (shared) {
      sum_shared<key_block>(job, j, r, sum);
    } else {
      unroll<key_block>([&](auto i) FOVEA_INLINE_BODY { sum[i] = sum_key(job, min_of(j + i, last), r); });
    }
    unroll<key_block>([&](auto i) FOVEA_INLINE_BODY { lane_sums[i] = sum[i]; });
  }

  FOVEA_INLINE static UnitForm form_of(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    return unit_form(job.query[r], job.fact(j));
  }

  FOVEA_NOINLINE static Float sum_key(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const UnitForm form = form_of(job, j, r);
    if (form == UnitForm::direct) return sum_direct(job, j, r);
    if (form == UnitForm::single) return sum_single(job, j, r);
    Float sum[1];
    sum_shared<1>(job, j, r, sum);
    return sum[0];
  }

  FOVEA_INLINE static const float *query_of(const ScoreJob<tile_rows> &job, int64_t r) {
    return job.query + tile_rows + r * 2 * padded_units(job.problem.head_dim);
  }

  // sum of v - 2 sum, with the sum of v in the first lane, so that the lanes' sum is the score.
  FOVEA_INLINE static Float subtract(const ScoreJob<tile_rows> &job, const Float &sum) {
    return multiply_add(sum, splat(-2.0f), load_partial(&job.problem.score_vector_sum, 1));
  }

  template <int keys>
  FOVEA_INLINE static void sum_shared(const ScoreJob<tile_rows> &job, int64_t j, int64_t r, Float (&sum)[keys]) {
    const int64_t units = padded_units(job.problem.head_dim);
    const int64_t key_stride = job.problem.key_strides.position;
    const int64_t ahead = keys_ahead(units) * key_stride;
    const float *query = query_of(job, r);
    const float *weighted = query + units;
    const float *key[keys];
    unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
      key[y] = job.keys + min_of(j + y, job.tile.keys - 1) * key_stride;
      sum[y] = zero();
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
          prefetch(key[y] + u + k * lanes + ahead);
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
    unroll<keys>([&](auto y) FOVEA_INLINE_BODY { sum[y] = subtract(job, sum[y]); });
  }

  FOVEA_INLINE static Float sum_single(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const float *key = job.keys + j * job.problem.key_strides.position;
    const float *query = query_of(job, r);
    Float sum = zero();
    for (int64_t u = 0; u < padded_units(job.problem.head_dim); u += lanes) {
      const Float g = load(query + u);
      sum = multiply_add(load(job.problem.score_vector + u), g * reciprocal(g + load(key + u)), sum);
    }
    return subtract(job, sum);
  }

  FOVEA_INLINE static Float sum_direct(const ScoreJob<tile_rows> &job, int64_t j, int64_t r) {
    const float *key = job.keys + j * job.problem.key_strides.position;
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
