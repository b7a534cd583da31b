// Gradients of the additive (and concat) score of a band of one row, as a decoder's step has: lanes are units, where
// those of scores/additive_gradients.hpp are rows and all but one would be idle. Each number is made of the same terms
// in the same order as there, so its bits are the same.
//
// Per register of units and key the same 11 instructions, two more for the key's sums, and three loads and a store.
// Units are taken in chunks: what belongs to the row lies in the first-level cache while all keys of the tile go by,
// four at a time.
#pragma once

#include "kernels/attention/many_rows.hpp"
#include "kernels/scores/additive_slopes.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct AdditiveRowGradients {
  static constexpr int64_t tile_rows = ManyRowsValues::tile_rows;
  static constexpr int64_t chunk = 256;
  static constexpr int block = 4;  // keys
  using Job = GradientJob<tile_rows>;

  // A chunk's units in the room for rows: as they are kept, as exponentials, and what has been summed up.
  struct Chunk {
    int64_t first, count;
    float *row, *exponentials, *query_sums, *vector_sums;
  };

  // What the row and a key give together.
  enum class Form { tangents, exponentials, direct_key, direct_row };

  const Job &job;
  const AdditiveUnits &units;

  FOVEA_NOINLINE void run() const {
    static_assert(4 * chunk <= 2 * 32 * tile_rows, "the room for rows is too small");
    const int64_t dim = job.score.problem.sizes.compared_dim;
    for (int64_t u = 0; u < dim; u += chunk) {
      const Chunk some = {u,
                          min_of(chunk, dim - u),
                          units.row_room,
                          units.row_room + chunk,
                          units.row_room + 2 * chunk,
                          units.row_room + 3 * chunk};
      gather(some);
      const ScoreTile &tile = job.score.tile;
      for (int64_t j = 0; j < tile.keys;) {
        const int64_t end = min_of(tile.keys, j + block - (tile.key + j) % block);
        pass_keys(some, j, end - j);
        j = end;
      }
      scatter(some);
    }
  }

 private:
  FOVEA_INLINE bool tangent_row() const { return units.reach[0] <= tangent_reach; }

  FOVEA_INLINE void gather(const Chunk &some) const {
    const float *row = units.rows + some.first * tile_rows;
    for (int64_t i = 0; i < round_up(some.count, lanes); ++i) {
      const bool present = i < some.count;
      some.row[i] = present ? row[i * tile_rows] : 0.0f;
      some.query_sums[i] = present && job.query_sums != nullptr ? job.query_sums[(some.first + i) * tile_rows] : 0.0f;
      some.vector_sums[i] = 0.0f;
    }
    for (int64_t i = 0; i < some.count; i += lanes) {
      const Float unit = load(some.row + i);
      store(some.exponentials + i, tangent_row() ? exponential_of_tangent(-unit) : unit);
    }
  }

  FOVEA_INLINE void scatter(const Chunk &some) const {
    for (int64_t i = 0; i < some.count; ++i) {
      if (job.query_sums != nullptr) job.query_sums[(some.first + i) * tile_rows] = some.query_sums[i];
      if (job.vector_sums != nullptr) job.vector_sums[some.first + i] += some.vector_sums[i];
    }
  }

  FOVEA_INLINE Form form_of(int64_t j) const {
    const float reach = job.score.key_scalar(j);
    if (!(units.reach[0] <= largest_reach)) return Form::direct_row;
    if (!(reach <= largest_reach)) return Form::direct_key;
    return tangent_row() && reach <= tangent_reach ? Form::tangents : Form::exponentials;
  }

  FOVEA_INLINE void pass_keys(const Chunk &some, int64_t j, int64_t count) const {
    const Form form = form_of(j);
    bool alike = count == block, as_kept = true;
    for (int64_t y = 0; y < count; ++y) {
      alike = alike && form_of(j + y) == form;
      as_kept = as_kept && job.score.key_scalar(j + y) > tangent_reach;
    }
    if (alike && form == Form::tangents) {
      pass_block<true>(some, j, count, [&](int64_t i, int, const Float &key) FOVEA_INLINE_BODY {
        return slope_of_tangents(load(some.row + i), key);
      });
    } else if (alike && form == Form::exponentials && as_kept) {
      pass_block<true>(some, j, count, [&](int64_t i, int, const Float &key) FOVEA_INLINE_BODY {
        return slope_of_exponentials(load(some.exponentials + i), key);
      });
    } else {
      pass_block<false>(some, j, count, [&](int64_t i, int y, const Float &key) FOVEA_INLINE_BODY {
        return slope(some, i, j + y, key);
      });
    }
  }

  FOVEA_NOINLINE UnitSlope slope(const Chunk &some, int64_t i, int64_t j, const Float &kept) const {
    const Float row = load(some.row + i);
    const float reach = job.score.key_scalar(j);
    const Float key = reach <= tangent_reach ? exponential_of_tangent(kept) : kept;
    switch (form_of(j)) {
      case Form::tangents: return slope_of_tangents(row, kept);
      case Form::exponentials: return slope_of_exponentials(load(some.exponentials + i), key);
      case Form::direct_key: return slope_of_tanh(tanh_of_sum(load(some.exponentials + i), true, kept, false));
      case Form::direct_row: break;
    }
    return slope_of_tanh(tanh_of_sum(row, false, key, reach <= largest_reach));
  }

  // slope(unit of the chunk, key of the block, its unit as kept) for `count` keys from j on; whole: for `block`.
  template <bool whole, class Slope>
  FOVEA_NOINLINE void pass_block(const Chunk &some, int64_t j, int64_t count, const Slope &slope) const {
    const float *weight = job.score.problem.score.vector + some.first;
    const float *key[block];
    float *key_sums[block];
    Float grad[block];
    unroll<block>([&](auto y) FOVEA_INLINE_BODY {
      const int64_t at = min_of(j + y, j + count - 1);
      key[y] = job.score.keys.row(at) + some.first;
      key_sums[y] = job.key_sums == nullptr ? nullptr : job.key_sums + at * job.stride + some.first;
      grad[y] = splat(job.score.tile.scores[at * tile_rows]);
    });
    for (int64_t i = 0; i < some.count; i += lanes) {
      const Float factor = splat(4.0f) * load(weight + i);
      Float query_sum = zero();
      Float vector_sum = load(some.vector_sums + i);
      unroll<block>([&](auto y) FOVEA_INLINE_BODY {
        if (!whole && y >= count) return;
        const UnitSlope its = slope(i, y, load(key[y] + i));
        query_sum = multiply_add(grad[y], its.quarter, query_sum);
        vector_sum = multiply_add(grad[y], its.tanh, vector_sum);
        if (job.key_sums == nullptr) return;
        store(key_sums[y] + i, load(key_sums[y] + i) + factor * (grad[y] * its.quarter));
      });
      store(some.vector_sums + i, vector_sum);
      store(some.query_sums + i, multiply_add(query_sum, factor, load(some.query_sums + i)));
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
