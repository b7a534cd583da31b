// Gaussian scores: scores[key][row] = -|q - k|^2 / 2, to be multiplied by 1 / sigma^2.
//
// As a dot product, q.k - (|q|^2 + |k|^2) / 2, it costs what the scaled dot product costs, but its error is that of
// (|q|^2 + |k|^2) / 2, not of |q - k|^2 / 2: no more than a few roundings of the score where the points are far apart
// beside their distance from the origin, anything where they are near. So a pair whose dot product leaves less than
// half of that sum gets the squared difference itself. Which way a pair goes depends on nothing but its own two points:
// no other key or query changes its bits. A difference is one instruction more for each multiply-add, so with few
// features, where the softmax takes most of the time, all pairs get it.
//
// The dot products of a whole tile are made first, and then looked through in small blocks. Tiles in which all pairs
// are near come in runs (data far from the origin, or all of one sign): after one of them differences are made first,
// and dot products only where it is not clear that they would say near, too.
#pragma once

#include <math.h>

#include "kernels/kernel_table.hpp"
#include "kernels/scores/dot.hpp"
#include "kernels/scores/gaussian_gradients.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// A sum whose roundings are kept and added at its end (Ogita, Rump and Oishi 2005).
struct CompensatedSum {
  Float sum = zero();
  Float lost = zero();

  FOVEA_INLINE void add_square(const Float &x) {
    const Float square = x * x;
    const Float next = sum + square;
    const Float taken = next - sum;
    const Float rounded = (sum - (next - taken)) + (square - taken);
    lost = lost + (rounded + multiply_add(x, x, -square));
    sum = next;
  }
};

// Its scores of many rows, which are compiled apart.
const ScoreFunction &dot_products();

// Points as the dot product's path for many rows takes them: its sums of products, the same sums of squared
// differences, and the score from which on a pair is near whose squares, with -1/4, add up to `quarter`.
struct FloatPoints : DotManyRows {
  using Product = Products;
  using Difference = SquaredDifferences;
  FOVEA_INLINE static Float least_near(const Float &quarter) { return quarter; }
};

// What the pairs of a tile were.
struct NearPairs {
  bool some = false, all = true;
};

template <class Points>
struct Gaussian : Points {
  using Points::tile_rows;
  using Product = typename Points::Product;
  using Difference = typename Points::Difference;

  // What the last tile's pairs were (score.hpp); per row -|q|^2 / 4; the queries.
  static constexpr int64_t quarters_at = lanes, queries_at = quarters_at + tile_rows;
  static constexpr int64_t query_floats(int64_t head_dim) { return queries_at + Points::query_floats(head_dim); }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    float *at = query + queries_at;
    Points::load_queries(problem, table, at);
    query[all_near_at] = 0.0f;
    if (problem.score.key_scalars == nullptr) return;
    const float *end = at + Points::query_floats(problem.sizes.compared_dim);
    for (int64_t r = 0; r < table.vectors * lanes; r += lanes) {
      CompensatedSum norm;
      for (const float *x = at + r; x < end; x += tile_rows) {
        unroll<Difference::parts>(
            [&](auto p) FOVEA_INLINE_BODY { norm.add_square(Difference::template part<decltype(p)::value>(load(x))); });
      }
      store(query + quarters_at + r, (norm.sum + norm.lost) * splat(-0.25f));
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    if (job.key_scalars == nullptr) {
      return for_each_block_of(job, [&](const auto &scores) FOVEA_INLINE_BODY {
        fetch_next(scores);
        take_differences(scores);
      });
    }
    NearPairs near;
    if (job.query[all_near_at] != 0.0f) {
      for_each_block_of(job, [&](const auto &scores) FOVEA_INLINE_BODY {
        fetch_next(scores);
        take_differences(scores);
        surely_near(scores) ? void(near.some = true) : take_products(scores, &near);
      });
    } else {
      const ScoreJob<tile_rows> products = {job.problem, job.table, job.query + queries_at, job.keys, job.key_scalars,
                                            job.tile,    job.next};
      dot_products().score(&products);
      for_each_block_of(job, [&](const auto &scores) FOVEA_INLINE_BODY { expand(scores, &near); });
    }
    job.query[all_near_at] = near.all ? 1.0f : 0.0f;
    job.query[some_near_at] = near.some ? 1.0f : 0.0f;
  }

  FOVEA_NOINLINE static bool gradient(const GradientJob<tile_rows> &job) {
    return GaussianGradients(job, job.score.query + quarters_at, job.score.query + queries_at).run();
  }

 private:
  // body(ScoreBlock) for all of a tile, each register of rows over no more keys than it attends. Differences are two
  // instructions for each multiply-add: four keys by one register of rows keep two ports busy, by two they are loaded
  // half as often.
  template <class Body>
  FOVEA_INLINE static void for_each_block_of(const ScoreJob<tile_rows> &job, const Body &body) {
    const ScoreTile &tile = job.tile;
    int64_t v = 0;
    for (; tile.vector_any == nullptr && v + 2 <= tile.vectors; v += 2) {
      int64_t j = 0;
      for (; j + 4 <= tile.keys; j += 4) body(ScoreBlock<4, 2>{job, nullptr, j, v});
      for (; j < tile.keys; ++j) body(ScoreBlock<1, 2>{job, nullptr, j, v});
    }
    for (; v < tile.vectors; ++v) {
      const KeyRange range = tile.vector_any == nullptr ? KeyRange{0, tile.keys} : tile.keys_of(v);
      int64_t j = range.first;
      for (; j + 4 <= range.last; j += 4) body(ScoreBlock<4, 1>{job, nullptr, j, v});
      for (; j < range.last; ++j) body(ScoreBlock<1, 1>{job, nullptr, j, v});
    }
  }

  template <class Scores>
  FOVEA_INLINE static void fetch_next(const Scores &scores) {
    if (scores.v == 0) scores.job.next.fetch(scores.j, Scores::keys);
  }

  // -(|q|^2 + |k|^2) / 4: half of what the dot product is taken from.
  template <class Scores>
  FOVEA_INLINE static Float quarter(const Scores &scores, int r, int i) {
    return load(scores.job.query + quarters_at + (scores.v + i) * lanes) +
           splat(-0.25f * scores.job.key_scalar(scores.j + r));
  }
  // A pair is far if its score is below.
  template <class Scores>
  FOVEA_INLINE static Float least_near(const Scores &scores, int r, int i) {
    return Points::least_near(quarter(scores, r, i));
  }

  template <class Terms, class Scores, class Take>
  FOVEA_INLINE static void sum(const Scores &scores, const Take &take) {
    Block<Scores::keys, Scores::vectors> block;
    Points::template sum<Terms>(scores, block, scores.job.query + queries_at);
    scores.for_each([&](auto r, auto i, auto n, float *at) FOVEA_INLINE_BODY { take(r, i, block.at[n], at); });
  }

  template <class Scores>
  FOVEA_NOINLINE static void take_differences(const Scores &scores) {
    sum<Difference>(
        scores, [](int, int, const Float &square, float *at) FOVEA_INLINE_BODY { store(at, square * splat(-0.5f)); });
  }

  // Whether all differences are so small that expand() would take them: the sums of 1024 features that it goes by do
  // not err by as much as the margin.
  template <class Scores>
  FOVEA_INLINE static bool surely_near(const Scores &scores) {
    constexpr float margin = 1.0f - 0x1p-9f;
    Mask sure = zero() == zero();
    scores.for_each([&](auto r, auto i, auto, float *at)
                        FOVEA_INLINE_BODY { sure = sure & (load(at) > least_near(scores, r, i) * splat(margin)); });
    return xsimd::all(sure);
  }

  template <class Scores>
  FOVEA_NOINLINE static void take_products(const Scores &scores, NearPairs *near) {
    sum<Product>(scores, [](int, int, const Float &product, float *at) FOVEA_INLINE_BODY { store(at, product); });
    expand(scores, near);
  }

  // From the dot product to the score, which for pairs that are near is the difference.
  template <class Scores>
  FOVEA_INLINE static void expand(const Scores &scores, NearPairs *near) {
    Mask all_far = zero() == zero();
    scores.for_each([&](auto r, auto i, auto, float *at) FOVEA_INLINE_BODY {
      const Float fourth = quarter(scores, r, i);
      const Float score = multiply_add(fourth, splat(2.0f), load(at));
      all_far = all_far & (score < Points::least_near(fourth));
      store(at, score);
    });
    if (xsimd::all(all_far)) {
      near->all = false;
    } else {
      near->some = true;
      near->all = replace_near(scores) && near->all;
    }
  }

  template <class Scores>
  FOVEA_NOINLINE static bool replace_near(const Scores &scores) {
    Mask some_far = zero() != zero();
    sum<Difference>(scores, [&](int r, int i, const Float &square, float *at) FOVEA_INLINE_BODY {
      const Float score = load(at);
      const Mask far = score < least_near(scores, r, i);
      some_far = some_far | far;
      store(at, choose(far, score, square * splat(-0.5f)));
    });
    return !xsimd::any(some_far);
  }
};

using GaussianManyRows = Gaussian<FloatPoints>;

struct HalfDistance : SquaredDifferences {
  FOVEA_INLINE static Float finish(const Float &sum) { return sum * splat(-0.5f); }
};

// Few rows are bound by memory, which leaves time for the difference.
using GaussianFewRows = FeatureRows<HalfDistance>;

inline void squared_norms(const SquaredNorms &norms) {
  for (int64_t r = 0; r < norms.count; ++r) {
    CompensatedSum norm;
    with_element(norms.dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      const auto *x = static_cast<const typename T::Element *>(norms.rows) + r * norms.stride;
      int64_t d = 0;
      for (; d + lanes <= norms.dim; d += lanes) norm.add_square(load(x + d));
      norm.add_square(load_partial(x + d, norms.dim - d));
    });
    norms.out[r] = horizontal_sum(norm.sum) + horizontal_sum(norm.lost);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
