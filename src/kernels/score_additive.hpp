// Additive (and concat): scores[key][row] = sum_u v[u] tanh(query[u][row] + key[key][u]), on projected queries and
// prepared keys; method and error in additive_units.hpp.
//
// Bound: about 5 vector instructions for each lanes units (4 multiply-adds and products, a quarter of a reciprocal).
// Blocks are few registers of rows by several keys: each load of a query's exponentials serves all the keys of a block.
// That is not only fewer instructions: with one full-width load for each multiply-add the core ran at a lower clock
// (measured with AVX-512: 18.0 giga-units a second with 4 x 1, 21.4 with 2 x 4).
#pragma once

#include "kernels/additive_units.hpp"
#include "kernels/attention_rows_path.hpp"
#include "kernels/attention_tile_path.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct AdditiveTile : TileValues {
  static constexpr int64_t chunk =
      64;  // units of a pass over the tile: they and the keys' stay in the first-level cache
  static constexpr int key_block = 4;
  static constexpr int vector_block = has_32_registers ? 2 : 1;

  // The band's reach (and room up to a whole row of registers), then the queries' units.
  static constexpr int64_t query_floats(int64_t head_dim) { return (padded_units(head_dim) + 1) * tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t units = padded_units(problem.head_dim);
    const int64_t width = table.vectors * lanes;
    float *at = query + tile_rows;
    transpose_queries(table, units, at);
    Reach reach;
    for (int64_t u = 0; u < units; ++u) {
      for (int64_t r = 0; r < width; r += lanes) reach.take(load(at + u * tile_rows + r));
    }
    query[0] = reach.value();
    if (!holds_exponentials(query[0])) return;
    for (int64_t u = 0; u < units; ++u) {
      for (int64_t r = 0; r < width; r += lanes) {
        const Float unit = load(at + u * tile_rows + r);
        store(at + u * tile_rows + r, exp_register(unit + unit));
      }
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const int64_t units = padded_units(job.problem.head_dim);
    for (int64_t u = 0; u < units; u += chunk) score_chunk(job, u, min_of(chunk, units - u));
  }

 private:
  FOVEA_INLINE static void score_chunk(const ScoreJob<tile_rows> &job, int64_t u, int64_t units) {
    const ScoreTile &tile = job.tile;
    int64_t j = 0;
    while (j < tile.keys) {
      const UnitForm form = form_of(job, j);
      if (u == 0) job.next.fetch(j, key_block);
      if (form == UnitForm::fast && j + key_block <= tile.keys && same_form(job, j, form)) {
        score_keys<UnitForm::fast, key_block>(job, j, u, units);
        j += key_block;
      } else {
        if (form == UnitForm::fast) score_keys<UnitForm::fast, 1>(job, j, u, units);
        if (form == UnitForm::cut) score_keys<UnitForm::cut, 1>(job, j, u, units);
        if (form == UnitForm::general) score_key(job, j, u, units);
        ++j;
      }
    }
  }

  FOVEA_INLINE static UnitForm form_of(const ScoreJob<tile_rows> &job, int64_t j) {
    return unit_form(job.query[0], job.fact(j), job.problem.score_vector_finite);
  }

  FOVEA_INLINE static bool same_form(const ScoreJob<tile_rows> &job, int64_t j, UnitForm form) {
    for (int64_t i = 1; i < key_block; ++i) {
      if (form_of(job, j + i) != form) return false;
    }
    return true;
  }

  // scores = sum of v - 2 sum; later chunks subtract the rest.
  FOVEA_INLINE static void put(const ScoreJob<tile_rows> &job, int64_t j, int64_t v, int64_t u, const Float &sum) {
    float *at = job.tile.scores + j * tile_rows + v * lanes;
    store(at, multiply_add(sum, splat(-2.0f), u == 0 ? splat(job.problem.score_vector_sum) : load(at)));
  }

  template <UnitForm form, int keys, int vectors>
  FOVEA_INLINE static void score_block(const ScoreJob<tile_rows> &job, int64_t j, int64_t v, int64_t u, int64_t units) {
    const int64_t key_stride = job.problem.key_strides.position;
    const float *key = job.keys + j * key_stride + u;
    const float *query = job.query + (u + 1) * tile_rows + v * lanes;
    const float *weight = job.problem.score_vector + u;
    Float sum[vectors * keys];
    unroll<vectors * keys>([&](auto i) FOVEA_INLINE_BODY { sum[i] = zero(); });
    for (int64_t i = 0; i < units; i += units_at_once) {
      Float weights[units_at_once];
      unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY { weights[k] = splat(weight[i + k]); });
      unroll<vectors>([&](auto x) FOVEA_INLINE_BODY {
        Float e[units_at_once];
        unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY { e[k] = load(query + (i + k) * tile_rows + x * lanes); });
        unroll<keys>([&](auto y) FOVEA_INLINE_BODY {
          Float d[units_at_once];
          unroll<units_at_once>(
              [&](auto k) FOVEA_INLINE_BODY { d[k] = denominator<form>(e[k], splat(key[y * key_stride + i + k])); });
          sum[x * keys + y] = add_quotients(weights, d, sum[x * keys + y]);
        });
      });
    }
    unroll<vectors>([&](auto x) FOVEA_INLINE_BODY {
      unroll<keys>([&](auto y) FOVEA_INLINE_BODY { put(job, j + y, v + x, u, sum[x * keys + y]); });
    });
  }

  template <UnitForm form, int keys>
  FOVEA_NOINLINE static void score_keys(const ScoreJob<tile_rows> &job, int64_t j, int64_t u, int64_t units) {
    int64_t v = 0;
    for (; v + vector_block <= job.tile.vectors; v += vector_block) {
      score_block<form, keys, vector_block>(job, j, v, u, units);
    }
    if constexpr (vector_block > 1) {
      if (v < job.tile.vectors) score_block<form, keys, 1>(job, j, v, u, units);
    }
  }

  // Any reach: unit by unit.
  FOVEA_NOINLINE static void score_key(const ScoreJob<tile_rows> &job, int64_t j, int64_t u, int64_t units) {
    const float *key = job.keys + j * job.problem.key_strides.position + u;
    const bool query_is_exponential = holds_exponentials(job.query[0]);
    const bool key_is_exponential = holds_exponentials(job.fact(j));
    const int64_t present = min_of(units, job.problem.head_dim - u);  // 0 * infinity must not come from padding
    for (int64_t v = 0; v < job.tile.vectors; ++v) {
      float *at = job.tile.scores + j * tile_rows + v * lanes;
      Float sum = u == 0 ? zero() : load(at);
      for (int64_t i = 0; i < present; ++i) {
        const Float query = load(job.query + (u + 1 + i) * tile_rows + v * lanes);
        const Float value = tanh_of_sum(query, query_is_exponential, splat(key[i]), key_is_exponential);
        sum = multiply_add(splat(job.problem.score_vector[u + i]), value, sum);
      }
      store(at, sum);
    }
  }
};

// Few rows: lanes are units. Bound by the bytes of the prepared keys, or by the same 5 instructions when they are in
// cache.
struct AdditiveRows : RowValues {
  // Each row's reach, then the rows of units.
  static constexpr int64_t query_floats(int64_t head_dim) { return (padded_units(head_dim) + 1) * tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    const int64_t units = padded_units(problem.head_dim);
    for (int64_t r = 0; r < table.count; ++r) {
      float *to = query + tile_rows + r * units;
      memcpy(to, table.query[r], static_cast<size_t>(units) * sizeof(float));
      query[r] = prepare_key_units(to, units);
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const int64_t units = padded_units(job.problem.head_dim);
    const int64_t rows = job.table.count;
    alignas(64) float reduced[lanes];
    float *to[lanes];
    Square sums;
    int64_t filled = 0;
    const auto flush = [&]() FOVEA_INLINE_BODY {
      sum_rows(sums).store_aligned(reduced);
      for (int64_t i = 0; i < filled; ++i) *to[i] = reduced[i];
      filled = 0;
    };
    for (int64_t j = 0; j < job.tile.keys; ++j) {
      for (int64_t r = 0; r < rows; ++r) {
        sums.row[filled] = sum_units(job, j, r, units);
        to[filled] = job.tile.scores + j * job.tile.stride + r;
        if (++filled == lanes) flush();
      }
    }
    if (filled > 0) flush();
  }

 private:
  // Lanes that add up to the score.
  FOVEA_INLINE static Float sum_units(const ScoreJob<tile_rows> &job, int64_t j, int64_t r, int64_t units) {
    const float *key = job.keys + j * job.problem.key_strides.position;
    const float *query = job.query + tile_rows + r * units;
    const UnitForm form = unit_form(job.query[r], job.fact(j), job.problem.score_vector_finite);
    const int64_t ahead = keys_ahead(units) * job.problem.key_strides.position;
    if (form == UnitForm::fast) return sum_pair<UnitForm::fast>(job, key, query, units, ahead);
    if (form == UnitForm::cut) return sum_pair<UnitForm::cut>(job, key, query, units, ahead);
    return sum_pair_general(job, j, r, units);
  }

  template <UnitForm form>
  FOVEA_INLINE static Float sum_pair(const ScoreJob<tile_rows> &job, const float *key, const float *query,
                                     int64_t units, int64_t ahead) {
    const float *weight = job.problem.score_vector;
    Float sum = zero();
    int64_t u = 0;
    for (; u + units_at_once * lanes <= units; u += units_at_once * lanes) {
      Float weights[units_at_once];
      Float d[units_at_once];
      unroll<units_at_once>([&](auto k) FOVEA_INLINE_BODY {
        __builtin_prefetch(key + u + k * lanes + ahead, 0, 3);
        weights[k] = load(weight + u + k * lanes);
        d[k] = denominator<form>(load(query + u + k * lanes), load(key + u + k * lanes));
      });
      sum = add_quotients(weights, d, sum);
    }
    for (; u < units; u += lanes) {
      const Float d = denominator<form>(load(query + u), load(key + u));
      sum = multiply_add(load(weight + u), reciprocal(d), sum);
    }
    // The sum of v in the first lane, so that the lanes' sum is the score.
    return multiply_add(sum, splat(-2.0f), load_partial(&job.problem.score_vector_sum, 1));
  }

  FOVEA_NOINLINE static Float sum_pair_general(const ScoreJob<tile_rows> &job, int64_t j, int64_t r, int64_t units) {
    const float *key = job.keys + j * job.problem.key_strides.position;
    const float *query = job.query + tile_rows + r * units;
    Float sum = zero();
    for (int64_t u = 0; u < job.problem.head_dim; u += lanes) {
      const int64_t width = min_of(lanes, job.problem.head_dim - u);
      const Float value = tanh_of_sum(load(query + u), holds_exponentials(job.query[r]), load(key + u),
                                      holds_exponentials(job.fact(j)));
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
