// Gradients of the additive (and concat) score, many rows. With t = tanh(a + b) of a unit of a query and one of a key,
// and ds the gradient of their score:
//
//   da += ds v (1 - t^2), summed over keys    db += the same, summed over rows    dv += ds t
//
// Per register of rows, key and unit 11 instructions: a sum, four of its reciprocal, four products, and three
// multiply-adds, to the sums of the query, the key and v. A block of four keys shares what is loaded and stored for a
// row. Blocks begin at multiples of four of all keys and are summed up by themselves, so that a query's gradient does
// not depend on which keys its neighbours attend.
#pragma once

#include "kernels/attention/many_rows.hpp"
#include "kernels/scores/additive_slopes.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct AdditiveGradients {
  static constexpr int64_t tile_rows = ManyRowsValues::tile_rows;
  static constexpr int64_t chunk = 32;
  static constexpr int block = 4;  // keys
  using Job = GradientJob<tile_rows>;

  const Job &job;
  const AdditiveUnits &units;
  bool tangent_rows = false, exponential_rows = false, direct_rows = false;
  // The present chunk.
  int64_t first_unit = 0, unit_count = 0;
  const float *rows = nullptr;          // as they are kept
  const float *exponentials = nullptr;  // tangents turned into them
  alignas(64) float vector_sums[chunk * lanes];

  FOVEA_INLINE AdditiveGradients(const Job &its, const AdditiveUnits &kept) : job(its), units(kept) {
    for (int64_t r = 0; r < job.score.table.count; ++r) {
      const bool tangent = units.reach[r] <= tangent_reach, exponential = units.reach[r] <= largest_reach;
      tangent_rows = tangent_rows || tangent;
      exponential_rows = exponential_rows || (exponential && !tangent);
      direct_rows = direct_rows || !exponential;
    }
  }

  FOVEA_NOINLINE void run() {
    const int64_t dim = job.score.problem.sizes.compared_dim;
    for (first_unit = 0; first_unit < dim; first_unit += chunk) {
      unit_count = min_of(chunk, dim - first_unit);
      start_chunk();
      const ScoreTile &tile = job.score.tile;
      for (int64_t j = 0; j < tile.keys;) {
        const int64_t end = min_of(tile.keys, j + block - (tile.key + j) % block);
        pass_keys(j, end - j);
        j = end;
      }
      if (job.vector_sums == nullptr) continue;
      for (int64_t i = 0; i < unit_count; ++i) {
        job.vector_sums[first_unit + i] += horizontal_sum(load(vector_sums + i * lanes));
      }
    }
  }

 private:
  FOVEA_INLINE void start_chunk() {
    memset(vector_sums, 0, sizeof vector_sums);
    rows = exponentials = units.rows + first_unit * tile_rows;
    if (!tangent_rows) return;
    exponentials = units.row_room;
    for (int64_t r = 0; r < job.score.tile.vectors * lanes; r += lanes) {
      const Mask tangents = load(units.reach + r) <= splat(tangent_reach);
      for (int64_t i = 0; i < unit_count; ++i) {
        const Float unit = load(rows + i * tile_rows + r);
        store(units.row_room + i * tile_rows + r, choose(tangents, exponential_of_tangent(-unit), unit));
      }
    }
  }

  // The units of a key as exponentials, if they are tangents; else as they are.
  FOVEA_INLINE const float *exponential_key(int64_t j) const {
    const float *key = job.score.keys.row(j) + first_unit;
    if (!(job.score.key_scalar(j) <= tangent_reach)) return key;
    float *to = units.key_room + j % block * chunk;
    for (int64_t i = 0; i < unit_count; i += lanes) store(to + i, exponential_of_tangent(load(key + i)));
    return to;
  }

  FOVEA_INLINE void pass_keys(int64_t j, int64_t count) {
    const float *kept[block], *as_exponentials[block];
    bool tangents = true, exponentials_only = true;
    for (int64_t y = 0; y < count; ++y) {
      const float reach = job.score.key_scalar(j + y);
      kept[y] = job.score.keys.row(j + y) + first_unit;
      as_exponentials[y] = exponential_key(j + y);
      tangents = tangents && reach <= tangent_reach;
      exponentials_only = exponentials_only && reach <= largest_reach && (!tangent_rows || reach > tangent_reach);
    }
    const bool whole = count == block;
    if (whole && tangents && !exponential_rows && !direct_rows) {
      pass_block<true>(j, count, [&](int64_t i, int64_t v, int y) FOVEA_INLINE_BODY {
        return slope_of_tangents(load(rows + i * tile_rows + v * lanes), splat(kept[y][i]));
      });
    } else if (whole && exponentials_only && !direct_rows) {
      pass_block<true>(j, count, [&](int64_t i, int64_t v, int y) FOVEA_INLINE_BODY {
        return slope_of_exponentials(load(exponentials + i * tile_rows + v * lanes), splat(as_exponentials[y][i]));
      });
    } else {
      pass_block<false>(j, count, [&](int64_t i, int64_t v, int y) FOVEA_INLINE_BODY {
        return slope(i, v, kept[y][i], as_exponentials[y][i], job.score.key_scalar(j + y));
      });
    }
  }

  // Each row in the form that it and the key ask for.
  FOVEA_NOINLINE UnitSlope slope(int64_t i, int64_t v, float kept, float as_exponential, float key_reach) const {
    const Float reach = load(units.reach + v * lanes);
    const Float row = load(rows + i * tile_rows + v * lanes);
    const Float row_as_exponential = load(exponentials + i * tile_rows + v * lanes);
    const Mask row_is_exponential = reach <= splat(largest_reach);
    const bool key_is_exponential = key_reach <= largest_reach;
    UnitSlope slope = slope_of_exponentials(row_as_exponential, splat(as_exponential));
    if (key_reach <= tangent_reach && tangent_rows) {
      slope = choose_slope(reach <= splat(tangent_reach), slope_of_tangents(row, splat(kept)), slope);
    }
    if (!key_is_exponential) {
      const Float t = tanh_of_sum(row_as_exponential, true, splat(kept), false);
      slope = choose_slope(row_is_exponential, slope_of_tanh(t), slope);
    }
    if (direct_rows) {
      const Float t = tanh_of_sum(row, false, splat(as_exponential), key_is_exponential);
      slope = choose_slope(row_is_exponential, slope, slope_of_tanh(t));
    }
    return slope;
  }

  FOVEA_INLINE static UnitSlope choose_slope(const Mask &mask, const UnitSlope &a, const UnitSlope &b) {
    return {choose(mask, a.tanh, b.tanh), choose(mask, a.quarter, b.quarter)};
  }

  // slope(unit of the chunk, register of rows, key of the block) for `count` keys from j on; whole: for `block`.
  template <bool whole, class Slope>
  FOVEA_NOINLINE void pass_block(int64_t j, int64_t count, const Slope &slope) {
    const float *grads = job.score.tile.scores + j * tile_rows;
    const int64_t vectors = job.score.tile.vectors;
    float *query_sums = job.query_sums == nullptr ? nullptr : job.query_sums + first_unit * tile_rows;
    const float *weight = job.score.problem.score.vector + first_unit;
    for (int64_t i = 0; i < unit_count; ++i) {
      const Float factor = splat(4.0f * weight[i]);
      Float key_sum[block];
      unroll<block>([&](auto y) FOVEA_INLINE_BODY { key_sum[y] = zero(); });
      Float vector_sum = load(vector_sums + i * lanes);
      for (int64_t v = 0; v < vectors; ++v) {
        Float query_sum = zero();
        unroll<block>([&](auto y) FOVEA_INLINE_BODY {
          if (!whole && y >= count) return;
          const Float grad = load(grads + y * tile_rows + v * lanes);
          const UnitSlope its = slope(i, v, y);
          query_sum = multiply_add(grad, its.quarter, query_sum);
          key_sum[y] = multiply_add(grad, its.quarter, key_sum[y]);
          vector_sum = multiply_add(grad, its.tanh, vector_sum);
        });
        if (query_sums == nullptr) continue;
        float *to = query_sums + i * tile_rows + v * lanes;
        store(to, multiply_add(query_sum, factor, load(to)));
      }
      store(vector_sums + i * lanes, vector_sum);
      if (job.key_sums == nullptr) continue;
      unroll<block>([&](auto y) FOVEA_INLINE_BODY {
        if (!whole && y >= count) return;
        job.key_sums[(j + y) * job.stride + first_unit + i] += 4.0f * weight[i] * horizontal_sum(key_sum[y]);
      });
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
