// Gradients of Gaussian scores: dq += ds (k - q), dk += ds (q - k). Of pairs that are far from each other, which is
// those whose squared distance is more than an eighth of |q|^2 + |k|^2, these are expanded:
//
//   dq += ds k - (sum of ds) q        dk += ds q - (sum of ds) k
//
// which is what a dot product makes of ds, and two sums. Each point is less than three times as long as the difference,
// so less than two bits can be lost; scores, which take squares, tell near pairs from far ones at a half
// (scores/gaussian.hpp). Pairs that are near get the difference, one instruction more for each multiply-add. So a
// tile's gradients are parted in two: far ones stay where they are, near ones replace the raw scores. Each pair goes
// its way by itself, and a zero that stands for the other way adds nothing: no other query changes a query's bits.
#pragma once

#include "kernels/attention/weighted_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

struct GaussianGradients {
  static constexpr int64_t tile_rows = ManyRowsValues::tile_rows;
  static constexpr int64_t tile_keys = ManyRowsValues::tile_keys;
  static constexpr int64_t vectors = tile_rows / lanes;
  static constexpr int block = has_32_registers ? 8 : 4;
  using Job = GradientJob<tile_rows>;

  const Job &job;
  const float *quarters;  // of each row -|q|^2 / 4; not read where all pairs are near
  const float *queries;   // [d][row]
  float *near;            // [key][row]; raw scores until a pair has been told from others
  bool all_near = false;
  uint16_t near_lanes[tile_keys][vectors];  // a bit for each lane that holds a near pair

  FOVEA_INLINE GaussianGradients(const Job &its, const float *its_quarters, const float *its_queries)
      : job(its), quarters(its_quarters), queries(its_queries), near(its.raw) {}

  // Returns whether gradients of far pairs are left in the tile, to be passed on as those of dot products.
  FOVEA_NOINLINE bool run() {
    const bool is_parted = job.score.key_scalars != nullptr;  // else all are near
    bool any_near = !is_parted, any_far = is_parted;
    if (!is_parted) near = job.score.tile.scores;
    if (is_parted && job.raw != nullptr) part(&any_near, &any_far);
    all_near = !any_far;
    if (any_far) subtract_sums();
    if (any_near && job.query_sums != nullptr) pass_to_queries();
    if (any_near && job.key_sums != nullptr) pass_to_keys();
    return any_far;
  }

 private:
  // Whether a pair is near is asked again where a key has such pairs, which few keys have. What is stored of the others is
  // read only where all keys are near.
  FOVEA_INLINE void part(bool *any_near, bool *any_far) {
    const ScoreTile &tile = job.score.tile;
    *any_near = *any_far = false;
    memset(near_lanes, 0, sizeof near_lanes);
    for (int64_t j = 0; j < tile.keys; ++j) {
      const Float of_key = splat(-0.25f * job.score.key_scalar(j));
      Mask some_far = zero() != zero(), some_near = some_far;
      for (int64_t v = 0; v < tile.vectors; ++v) {
        const Mask is_far = pairs_are_far(j, v, of_key), counts = load(gradient_at(j, v)) != zero();
        some_far = some_far | (counts & is_far);
        some_near = some_near | (counts & ~is_far);  // NaN is near
      }
      const bool has_near = xsimd::any(some_near), has_far = xsimd::any(some_far);
      *any_near = *any_near || has_near;
      *any_far = *any_far || has_far;
      if (has_near) part_key(j, of_key);
      if (!has_near && !has_far) clear_near(j);
    }
  }

  FOVEA_INLINE Mask pairs_are_far(int64_t j, int64_t v, const Float &of_key) const {
    return load(near + j * tile_rows + v * lanes) < (load(quarters + v * lanes) + of_key) * splat(0.25f);
  }
  FOVEA_INLINE float *gradient_at(int64_t j, int64_t v) const {
    return job.score.tile.scores + j * tile_rows + v * lanes;
  }

  FOVEA_NOINLINE void part_key(int64_t j, const Float &of_key) {
    for (int64_t v = 0; v < job.score.tile.vectors; ++v) {
      const Float grad = load(gradient_at(j, v));
      const Mask is_near = (grad != zero()) & ~pairs_are_far(j, v, of_key);
      near_lanes[j][v] = static_cast<uint16_t>(is_near.mask());
      store(near + j * tile_rows + v * lanes, choose(is_near, grad, zero()));
      if (near_lanes[j][v] != 0) store(gradient_at(j, v), choose(is_near, zero(), grad));
    }
  }

  FOVEA_INLINE void clear_near(int64_t j) const {
    for (int64_t v = 0; v < job.score.tile.vectors; ++v) store(near + j * tile_rows + v * lanes, zero());
  }

  // (sum of ds) q and (sum of ds) k, of far pairs.
  FOVEA_INLINE void subtract_sums() const {
    const ScoreTile &tile = job.score.tile;
    int64_t v = 0;
    for (; job.query_sums != nullptr && v + 4 <= tile.vectors; v += 4) subtract_from_queries<4>(v);
    for (; job.query_sums != nullptr && v < tile.vectors; ++v) subtract_from_queries<1>(v);
    int64_t j = 0;
    for (; job.key_sums != nullptr && j + 4 <= tile.keys; j += 4) subtract_from_keys<4>(j);
    for (; job.key_sums != nullptr && j < tile.keys; ++j) subtract_from_keys<1>(j);
  }

  template <int registers>
  FOVEA_INLINE void subtract_from_queries(int64_t v) const {
    const ScoreTile &tile = job.score.tile;
    Block<1, registers> sum;
    const float *grads = gradient_at(0, v);
    const int64_t start = tile.key % value_chain;  // chains are those of all keys
    sum_in_chains(sum, start, start + tile.keys, value_chain, [&](int64_t, int64_t count) FOVEA_INLINE_BODY {
      for (const float *end = grads + count * tile_rows; grads < end; grads += tile_rows) {
        unroll<registers>([&](auto i) FOVEA_INLINE_BODY { sum.at[i] = sum.at[i] + load(grads + i * lanes); });
      }
    });
    const float *query = queries + v * lanes;
    float *to = job.query_sums + v * lanes;
    for (int64_t d = 0; d < job.score.problem.sizes.compared_dim; ++d, query += tile_rows, to += tile_rows) {
      unroll<registers>([&](auto i) FOVEA_INLINE_BODY {
        store(to + i * lanes, xsimd::fnma(load(query + i * lanes), sum.at[i], load(to + i * lanes)));
      });
    }
  }

  template <int keys>
  FOVEA_INLINE void subtract_from_keys(int64_t j) const {
    const int64_t dim = job.score.problem.sizes.compared_dim;
    Float sum[keys];
    sum_rows(j, sum);
    unroll<keys>([&](auto i) FOVEA_INLINE_BODY {
      const float *key = job.score.keys.row(j + i);
      float *to = job.key_sums + (j + i) * job.stride;
      int64_t d = 0;
      for (; d + lanes <= dim; d += lanes) store(to + d, xsimd::fnma(load(key + d), sum[i], load(to + d)));
      if (d < dim) store(to + d, xsimd::fnma(load_partial(key + d, dim - d), sum[i], load(to + d)));
    });
  }

  // Of each key the sum over rows, in all lanes.
  template <int keys>
  FOVEA_INLINE void sum_rows(int64_t j, Float (&sum)[keys]) const {
    const int64_t count = job.score.table.count;
    const float *grads = gradient_at(j, 0);
    unroll<keys>([&](auto i) FOVEA_INLINE_BODY { sum[i] = zero(); });
    int64_t r = 0;
    for (; r + lanes <= count; r += lanes) {
      unroll<keys>([&](auto i) FOVEA_INLINE_BODY { sum[i] = sum[i] + load(grads + i * tile_rows + r); });
    }
    const Mask there = lanes_below(count - r);
    unroll<keys>([&](auto i) FOVEA_INLINE_BODY {
      if (r < count) sum[i] = sum[i] + choose(there, load(grads + i * tile_rows + r), zero());
      sum[i] = splat(horizontal_sum(sum[i]));
    });
  }

  struct KeyList {
    uint8_t at[tile_keys];
    int64_t count = 0;
  };

  FOVEA_INLINE void pass_to_queries() const {
    const int64_t dim = job.score.problem.sizes.compared_dim;
    for (int64_t v = 0; v < job.score.tile.vectors; ++v) {
      KeyList list;
      for (int64_t j = 0; !all_near && j < job.score.tile.keys; ++j) {
        if (near_lanes[j][v] != 0) list.at[list.count++] = static_cast<uint8_t>(j);
      }
      if (!all_near && list.count == 0) continue;
      int64_t d = 0;
      for (; d + block <= dim; d += block) {
        all_near ? add_to_queries<block, true>(list, v, d) : add_to_queries<block, false>(list, v, d);
      }
      for (; d < dim; ++d) all_near ? add_to_queries<1, true>(list, v, d) : add_to_queries<1, false>(list, v, d);
    }
  }

  // So many features of a register of rows; keys are broadcast.
  template <int features, bool all>
  FOVEA_INLINE void add_to_queries(const KeyList &list, int64_t v, int64_t d) const {
    const RowSpan &keys = job.score.keys;
    const float *query = queries + d * tile_rows + v * lanes;
    Float q[features];
    unroll<features>([&](auto i) FOVEA_INLINE_BODY { q[i] = load(query + i * tile_rows); });
    Block<features, 1> sums;
    int64_t n = 0;
    const int64_t start = job.score.tile.key % value_chain;
    sum_in_chains(
        sums, start, start + job.score.tile.keys, value_chain, [&](int64_t at, int64_t count) FOVEA_INLINE_BODY {
          const int64_t end = at - start + count;
          for (; all ? n < end : n < list.count && list.at[n] < end; ++n) {
            const int64_t j = all ? n : list.at[n];
            const Float grad = load(near + j * tile_rows + v * lanes);
            const float *key = keys.row(j) + d;
            unroll<features>(
                [&](auto i) FOVEA_INLINE_BODY { sums.at[i] = multiply_add(grad, splat(key[i]) - q[i], sums.at[i]); });
          }
        });
    float *to = job.query_sums + d * tile_rows + v * lanes;
    unroll<features>([&](auto i)
                         FOVEA_INLINE_BODY { store(to + i * tile_rows, load(to + i * tile_rows) + sums.at[i]); });
  }

  // Keys most of whose pairs are near go in blocks, over all rows; else each over its own near ones.
  FOVEA_INLINE void pass_to_keys() const {
    for (int64_t j = 0, some = 0; j < job.score.tile.keys; j += some) {
      some = min_of(block, job.score.tile.keys - j);
      int64_t pairs = all_near ? block * tile_rows : 0;
      for (int64_t i = j; !all_near && i < j + some; ++i) pairs += near_rows(i);
      if (some == block && 2 * pairs >= block * job.score.table.count) {
        for (int64_t i = j; !all_near && i < j + some; ++i) {
          if (near_rows(i) == 0) clear_near(i);
        }
        add_to_block(j);
      } else {
        for (int64_t i = j; pairs > 0 && i < j + some; ++i) add_to_key(i);
      }
    }
  }

  FOVEA_INLINE int64_t near_rows(int64_t j) const {
    static_assert(vectors % 4 == 0 && lanes <= 16);
    int64_t count = 0;
    for (int64_t v = 0; v < vectors; v += 4) {
      uint64_t bits;
      memcpy(&bits, near_lanes[j] + v, sizeof bits);
      bits -= bits >> 1 & 0x5555555555555555;
      bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
      bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f;
      count += static_cast<int64_t>(bits * 0x0101010101010101 >> 56);
    }
    return count;
  }

  // A register of features of a block of keys; gradients are broadcast. Behind the last feature there is anything.
  FOVEA_NOINLINE void add_to_block(int64_t j) const {
    const int64_t dim = job.score.problem.sizes.compared_dim;
    const float *grads = near + j * tile_rows;
    for (int64_t d = 0; d < dim; d += lanes) {
      const int64_t width = min_of(lanes, dim - d);
      Float k[block];
      unroll<block>([&](auto i) FOVEA_INLINE_BODY { k[i] = load_partial(job.score.keys.row(j + i) + d, width); });
      Block<block, 1> sums;
      sum_in_chains(sums, 0, job.score.table.count, row_chain, [&](int64_t first, int64_t some) FOVEA_INLINE_BODY {
        for (int64_t r = first; r < first + some; ++r) {
          const Float q = load(job.query_rows + r * job.stride + d);
          unroll<block>([&](auto i) FOVEA_INLINE_BODY {
            sums.at[i] = multiply_add(splat(grads[i * tile_rows + r]), q - k[i], sums.at[i]);
          });
        }
      });
      float *to = job.key_sums + j * job.stride + d;
      unroll<block>([&](auto i)
                        FOVEA_INLINE_BODY { store(to + i * job.stride, load(to + i * job.stride) + sums.at[i]); });
    }
  }

  // The same of one key and the rows near it, several registers of features at a time.
  FOVEA_NOINLINE void add_to_key(int64_t j) const {
    const int64_t dim = job.score.problem.sizes.compared_dim;
    uint8_t list[tile_rows];
    int64_t count = 0;
    for (int64_t r = 0; all_near && r < job.score.table.count; ++r) list[count++] = static_cast<uint8_t>(r);
    for (int64_t v = 0; !all_near && v < job.score.tile.vectors; ++v) {
      for (unsigned bits = near_lanes[j][v]; bits != 0; bits &= bits - 1) {
        list[count++] = static_cast<uint8_t>(v * lanes + __builtin_ctz(bits));
      }
    }
    if (count == 0) return;
    int64_t d = 0;
    for (; d + block * lanes <= dim; d += block * lanes) add_listed<block>(j, d, block * lanes, list, count);
    for (; d < dim; d += lanes) add_listed<1>(j, d, min_of(lanes, dim - d), list, count);
  }

  template <int registers>
  FOVEA_INLINE void add_listed(int64_t j, int64_t d, int64_t width, const uint8_t *list, int64_t count) const {
    const float *key = job.score.keys.row(j) + d;
    Float k[registers];
    unroll<registers>(
        [&](auto i) FOVEA_INLINE_BODY { k[i] = registers == 1 ? load_partial(key, width) : load(key + i * lanes); });
    Block<registers, 1> sums;
    sum_in_chains(sums, 0, count, row_chain, [&](int64_t first, int64_t some) FOVEA_INLINE_BODY {
      for (int64_t n = first; n < first + some; ++n) {
        const Float grad = splat(near[j * tile_rows + list[n]]);
        const float *q = job.query_rows + list[n] * job.stride + d;
        unroll<registers>(
            [&](auto i) FOVEA_INLINE_BODY { sums.at[i] = multiply_add(grad, load(q + i * lanes) - k[i], sums.at[i]); });
      }
    });
    float *to = job.key_sums + j * job.stride + d;
    unroll<registers>([&](auto i) FOVEA_INLINE_BODY { store(to + i * lanes, load(to + i * lanes) + sums.at[i]); });
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
