// Gaussian: scores[key][row] = -|q - k|^2 / 2, to be multiplied by 1 / sigma^2.
//
// As a dot product, q.k - (|q|^2 + |k|^2) / 2, it costs what the scaled dot product costs, but its error is that of
// (|q|^2 + |k|^2) / 2, not of |q - k|^2 / 2: no more than a few roundings of the score where the points are far apart
// beside their distance from the origin, anything where they are near. So a pair whose dot product leaves less than half
// of that sum gets the squared difference itself. Which way a pair goes depends on nothing but its own two points: no
// other key or query changes its bits. A difference is one instruction more for each multiply-add, so with few features,
// where the softmax takes most of the time, all pairs get it.
//
// Blocks of scores in which all pairs were near come in runs (data far from the origin, or all of one sign): after one of
// them the difference is made first, and the dot product only if it is not clear that it would say near, too.
#pragma once

#include <math.h>

#include "kernels/kernel_table.hpp"
#include "kernels/scores/dot.hpp"

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

// Points as the dot product's path for many rows takes them: its sums of products, the same sums of squared differences, and
// the score from which on a pair is near whose squares, with -1/4, add up to `quarter`.
struct FloatPoints : DotManyRows {
  using Product = Products;
  using Difference = SquaredDifferences;
  FOVEA_INLINE static Float least_near(const Float &quarter) { return quarter; }
};

template <class Points>
struct Gaussian : Points {
  using Points::tile_rows;
  using Product = typename Points::Product;
  using Difference = typename Points::Difference;

  // Per row -|q|^2 / 4, then the queries.
  static constexpr int64_t query_floats(int64_t head_dim) { return Points::query_floats(head_dim) + tile_rows; }

  FOVEA_NOINLINE static void load_queries(const AttentionProblem &problem, const RowTable<tile_rows> &table,
                                          float *query) {
    float *at = query + tile_rows;
    Points::load_queries(problem, table, at);
    if (problem.score.key_scalars == nullptr) return;
    const float *end = at + Points::query_floats(problem.sizes.head_dim);
    for (int64_t r = 0; r < table.vectors * lanes; r += lanes) {
      CompensatedSum norm;
      for (const float *x = at + r; x < end; x += tile_rows) {
        unroll<Difference::parts>(
            [&](auto p) FOVEA_INLINE_BODY { norm.add_square(Difference::template part<decltype(p)::value>(load(x))); });
      }
      store(query + r, (norm.sum + norm.lost) * splat(-0.25f));
    }
  }

  FOVEA_NOINLINE static void score(const ScoreJob<tile_rows> &job) {
    if (job.key_scalars == nullptr) {
      return score_tile(job, [&](const auto &scores) FOVEA_INLINE_BODY { take_differences(scores); });
    }
    bool all_near = false;
    score_tile(job, [&](const auto &scores) FOVEA_INLINE_BODY {
      if (all_near) {
        take_differences(scores);
        if (surely_near(scores)) return;
      }
      all_near = expand(scores);
    });
  }

 private:
  // -(|q|^2 + |k|^2) / 4: half of what the dot product is taken from.
  template <class Scores>
  FOVEA_INLINE static Float quarter(const Scores &scores, int r, int i) {
    return load(scores.job.query + (scores.v + i) * lanes) + splat(-0.25f * scores.job.key_scalar(scores.j + r));
  }
  // A pair is far if its score is below.
  template <class Scores>
  FOVEA_INLINE static Float least_near(const Scores &scores, int r, int i) {
    return Points::least_near(quarter(scores, r, i));
  }

  template <class Terms, class Scores, class Take>
  FOVEA_INLINE static void sum(const Scores &scores, const Take &take) {
    Block<Scores::keys, Scores::vectors> block;
    Points::template sum<Terms>(scores, block, scores.job.query + tile_rows);
    scores.for_each([&](auto r, auto i, auto n, float *at) FOVEA_INLINE_BODY { take(r, i, block.at[n], at); });
  }

  template <class Scores>
  FOVEA_NOINLINE static void take_differences(const Scores &scores) {
    sum<Difference>(
        scores, [](int, int, const Float &square, float *at) FOVEA_INLINE_BODY { store(at, square * splat(-0.5f)); });
  }

  // Whether all differences are so small that expand() would take them: the sums of 1024 features that it goes by do not
  // err by as much as the margin.
  template <class Scores>
  FOVEA_INLINE static bool surely_near(const Scores &scores) {
    constexpr float margin = 1.0f - 0x1p-9f;
    Mask sure = zero() == zero();
    scores.for_each([&](auto r, auto i, auto, float *at)
                        FOVEA_INLINE_BODY { sure = sure & (load(at) > least_near(scores, r, i) * splat(margin)); });
    return xsimd::all(sure);
  }

  // The dot product, and for pairs that are near the difference. Returns whether all are.
  template <class Scores>
  FOVEA_INLINE static bool expand(const Scores &scores) {
    Mask all_far = zero() == zero();
    sum<Product>(scores, [&](int r, int i, const Float &product, float *at) FOVEA_INLINE_BODY {
      const Float fourth = quarter(scores, r, i);
      const Float score = multiply_add(fourth, splat(2.0f), product);
      all_far = all_far & (score < Points::least_near(fourth));
      store(at, score);
    });
    return !xsimd::all(all_far) && replace_near(scores);
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
