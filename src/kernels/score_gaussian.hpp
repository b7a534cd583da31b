// Gaussian: scores[key][row] = -|q - k|^2 / 2, to be multiplied by 1 / sigma^2.
//
// As a dot product, q.k - (|q|^2 + |k|^2) / 2, it costs what the scaled dot product costs, but cancels: its error is
// that of |q| |k|, not of |q - k|^2. So each key whose norm and the queries' are large against sigma gets the squared
// difference itself. Which way a pair goes depends on nothing but its own two norms: no other key or query changes its
// bits.
#pragma once

#include <math.h>

#include "kernels/score_dot.hpp"
#include "kernels/table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct GaussianTile : TileValues {
  // (|q|^2 + |k|^2) / sigma^2 up to here is left to the dot product: its error is then no more than 2^-24 times 16 or
  // so, the rounding of a score of that size.
  static constexpr float largest_norms = 32.0f;

  // Per row -|q|^2 / 2 and 1 / sigma^2 times the scale, then the queries.
  static constexpr int64_t query_floats(int64_t head_dim) { return (head_dim + 2) * tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    float *at = query + 2 * tile_rows;
    transpose_queries(table, problem.head_dim, at);
    for (int64_t r = 0; r < table.vectors * lanes; r += lanes) {
      Float sum = zero();
      for (int64_t d = 0; d < problem.head_dim; ++d) {
        const Float q = load(at + d * tile_rows + r);
        sum = multiply_add(q, q, sum);
      }
      store(query + r, sum * splat(-0.5f));
    }
    const float scale = fabsf(problem.scale);
    for (int64_t r = 0; r < table.vectors * lanes; ++r) {
      const bool own = problem.inverse_squares != nullptr && r < table.count;
      query[tile_rows + r] = own ? scale * table.inverse_square[r] : scale;
    }
  }

  // (|q|^2 + |k|^2) / sigma^2, bounded over the rows of a band as a function of |k|^2.
  struct Norms {
    float least_query = INFINITY, most_query = 0.0f;
    float least_factor = INFINITY, most_factor = 0.0f;

    FOVEA_INLINE explicit Norms(const ScoreJob<tile_rows> &job) {
      for (int64_t r = 0; r < job.table.count; ++r) {
        const float factor = job.query[tile_rows + r];
        const float norm = -2.0f * job.query[r] * factor;
        least_query = norm < least_query ? norm : least_query;
        most_query = norm <= most_query ? most_query : norm == norm ? norm : INFINITY;
        least_factor = factor < least_factor ? factor : least_factor;
        most_factor = factor > most_factor ? factor : most_factor;
      }
    }
    FOVEA_INLINE bool all_small(float key) const { return most_query + key * most_factor <= largest_norms; }
    FOVEA_INLINE bool all_large(float key) const { return !(least_query + key * least_factor <= largest_norms); }
  };

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    const Norms norms(job);
    int64_t some_large = 0;
    int64_t all_large = 0;
    for (int64_t j = 0; j < job.tile.keys; ++j) {
      some_large += norms.all_small(job.fact(j)) ? 0 : 1;
      all_large += norms.all_large(job.fact(j)) ? 1 : 0;
    }
    if (all_large < job.tile.keys) {
      multiply_tile(job, job.query + 2 * tile_rows,
                    [&](auto &block, int64_t j, int64_t v) FOVEA_INLINE_BODY { subtract_norms(job, block, j, v); });
    }
    if (some_large == 0) return;
    for (int64_t j = 0; j < job.tile.keys; ++j) {
      if (!norms.all_small(job.fact(j))) subtract_key(job, j);
    }
  }

 private:
  // From the products, once they are complete: sums that began with the norms would round to their size at every step.
  template <int count, int vectors>
  FOVEA_INLINE static void subtract_norms(const ScoreJob<tile_rows> &job, Block<count, vectors> &block, int64_t j,
                                          int64_t v) {
    unroll<count>([&](auto r) FOVEA_INLINE_BODY {
      const Float key = splat(-0.5f * job.fact(j + r));
      unroll<vectors>([&](auto i) FOVEA_INLINE_BODY {
        Float &score = block.at[r * vectors + i];
        score = (score + key) + load(job.query + (v + i) * lanes);
      });
    });
  }

  // One key against the rows whose norm and its own are large.
  FOVEA_NOINLINE static void subtract_key(const ScoreJob<tile_rows> &job, int64_t j) {
    const float *query = job.query + 2 * tile_rows;
    const float *key = job.keys + j * job.problem.key_strides.position;
    for (int64_t v = 0; v < job.tile.vectors; ++v) {
      Float sum[4] = {zero(), zero(), zero(), zero()};
      const auto add = [&](auto i, int64_t d) FOVEA_INLINE_BODY {
        const Float difference = load(query + d * tile_rows + v * lanes) - splat(key[d]);
        sum[i] = multiply_add(difference, difference, sum[i]);
      };
      int64_t d = 0;
      for (; d + 4 <= job.problem.head_dim; d += 4) {
        unroll<4>([&](auto i) FOVEA_INLINE_BODY { add(i, d + i); });
      }
      for (; d < job.problem.head_dim; ++d) add(Index<0>{}, d);
      const Float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
      float *at = job.tile.scores + j * tile_rows + v * lanes;
      const Float factor = load(job.query + tile_rows + v * lanes);
      const Float norms = splat(-2.0f) * load(job.query + v * lanes) * factor + splat(job.fact(j)) * factor;
      store(at, xsimd::select(norms <= splat(largest_norms), load(at), total * splat(-0.5f)));
    }
  }
};

struct SquaredDifferences {
  FOVEA_INLINE static Float add(const Float &key, const Float &query, const Float &sum) {
    const Float difference = query - key;
    return multiply_add(difference, difference, sum);
  }
  FOVEA_INLINE static Float finish(const Float &sum) { return sum * splat(-0.5f); }
};

// Few rows are bound by memory, which leaves time for the difference.
using GaussianRows = FeatureRows<SquaredDifferences>;

inline void squared_norms(const SquaredNorms &norms) {
  for (int64_t r = 0; r < norms.count; ++r) {
    const float *x = norms.rows + r * norms.stride;
    Float sum = zero();
    int64_t d = 0;
    for (; d + lanes <= norms.dim; d += lanes) sum = multiply_add(load(x + d), load(x + d), sum);
    const Float rest = load_partial(x + d, norms.dim - d);
    norms.out[r] = horizontal_sum(multiply_add(rest, rest, sum));
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
