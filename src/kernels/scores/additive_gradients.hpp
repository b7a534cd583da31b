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
#include "kernels/pieces.hpp"
#include "kernels/scores/additive_slopes.hpp"
#include "kernels/transpose.hpp"

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
  alignas(64) float key_lanes[block * chunk * lanes];  // of a block: the sums of each key and unit, not yet over lanes

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
      pass_block<true>(j, count, [rows = rows, kept](int64_t at, int64_t i, int y) FOVEA_INLINE_BODY {
        return slope_of_tangents(load(rows + at), splat(kept[y][i]));
      });
    } else if (whole && exponentials_only && !direct_rows) {
      pass_block<true>(j, count,
                       [rows = exponentials, as_exponentials](int64_t at, int64_t i, int y) FOVEA_INLINE_BODY {
                         return slope_of_exponentials(load(rows + at), splat(as_exponentials[y][i]));
                       });
    } else {
      pass_block<false>(j, count, [&](int64_t at, int64_t i, int y) FOVEA_INLINE_BODY {
        return slope(at, kept[y][i], as_exponentials[y][i], job.score.key_scalar(j + y));
      });
    }
  }

  // Each row in the form that it and the key ask for.
  FOVEA_NOINLINE UnitSlope slope(int64_t at, float kept, float as_exponential, float key_reach) const {
    const Float reach = load(units.reach + at % tile_rows);
    const Float row = load(rows + at);
    const Float row_as_exponential = load(exponentials + at);
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

  // slope(place of a register of rows, unit of the chunk, key of the block) for `count` keys from j on; whole: for
  // `block`. By value, so that the pointers it holds stay in registers while sums are stored.
  template <bool whole, class Slope>
  FOVEA_NOINLINE void pass_block(int64_t j, int64_t count, const Slope slope) {
    const float *grads = job.score.tile.scores + j * tile_rows;
    const int64_t row_end = job.score.tile.vectors * lanes;
    float *query_sums = job.query_sums == nullptr ? nullptr : job.query_sums + first_unit * tile_rows;
    const float *weight = job.score.problem.score.vector + first_unit;
    for (int64_t i = 0; i < unit_count; ++i) {
      const Float factor = splat(4.0f * weight[i]);
      Float key_sum[block];
      unroll<block>([&](auto y) FOVEA_INLINE_BODY { key_sum[y] = zero(); });
      Float vector_sum = load(vector_sums + i * lanes);
      for (int64_t r = 0; r < row_end; r += lanes) {
        Float query_sum = zero();
        unroll<block>([&](auto y) FOVEA_INLINE_BODY {
          if (!whole && y >= count) return;
          const Float grad = load(grads + y * tile_rows + r);
          const UnitSlope its = slope(i * tile_rows + r, i, y);
          query_sum = multiply_add(grad, its.quarter, query_sum);
          key_sum[y] = multiply_add(grad, its.quarter, key_sum[y]);
          vector_sum = multiply_add(grad, its.tanh, vector_sum);
        });
        if (query_sums == nullptr) continue;
        float *to = query_sums + i * tile_rows + r;
        store(to, multiply_add(query_sum, factor, load(to)));
      }
      store(vector_sums + i * lanes, vector_sum);
      unroll<block>([&](auto y) FOVEA_INLINE_BODY { store(key_lanes + (y * chunk + i) * lanes, key_sum[y]); });
    }
    for (int64_t y = 0; y < count && job.key_sums != nullptr; ++y) add_key_sums(j + y, key_lanes + y * chunk * lanes);
  }

  // Sums of the lanes of each of the chunk's units, times 4 v.
  FOVEA_NOINLINE void add_key_sums(int64_t j, const float *sums) const {
    const float *weight = job.score.problem.score.vector + first_unit;
    float *to = job.key_sums + j * job.stride + first_unit;
    for (int64_t i = 0; i < unit_count; i += lanes) {
      const int64_t present = min_of(lanes, unit_count - i);
      Square square;
      unroll<lanes>([&](auto k)
                        FOVEA_INLINE_BODY { square.row[k] = k < present ? load(sums + (i + k) * lanes) : zero(); });
      const Float sum = splat(4.0f) * load_up_to(weight + i, present) * horizontal_sums(square);
      store_up_to(to + i, load_up_to(to + i, present) + sum, present);
    }
  }

  // Lane i of the result is the sum of square.row[i]. With AVX-512 sum_rows (kernels/transpose.hpp) adds in another
  // order, and bits are pinned.
  FOVEA_INLINE static Float horizontal_sums(Square &square) {
    transpose(square);
    Float sum[4];
    unroll<4>([&](auto i) FOVEA_INLINE_BODY {
      sum[i] = square.row[i];
      if constexpr (lanes >= 8) sum[i] = sum[i] + square.row[i + 4];
      if constexpr (lanes == 16) sum[i] = sum[i] + (square.row[i + 8] + square.row[i + 12]);
    });
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
