// Online softmax (Milakov and Gimelshein 2018) on tiles whose lanes are rows, so that maxima and sums need no shuffles:
//   m' = max(m, max_j s_j),  rescale = e^(m - m'),  p_j = e^(s_j - m'),  sum' = sum * rescale + sum_j p_j
// The caller multiplies what it has accumulated by `rescale` before it adds p_j v_j.
//
// Scores stay in their own unit and the factor log2(e) * scale goes into the exponent's first multiply-add. The
// difference s - m is taken first: it is exact or small, however large the scores are.
#pragma once

#include "kernels/attention/logit_terms.hpp"
#include "kernels/math/exp.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// How many keys are taken together, each adding to a sum of its own: enough independent chains to keep both ports busy
// over the latencies, few enough to stay in registers.
constexpr int chains = has_32_registers ? 6 : 4;

template <int64_t rows>
struct SoftmaxState {
  alignas(64) float max[rows];
  alignas(64) float sum[rows];
  alignas(64) float rescale[rows];

  // Nothing seen yet, or the sink alone.
  FOVEA_INLINE void start(const RowTable<rows> &table, bool has_sink, float natural) {
    for (int64_t r = 0; r < table.vectors * lanes; r += lanes) {
      store(max + r, minus_infinity());
      store(sum + r, zero());
    }
    if (!has_sink) return;
    for (int64_t r = 0; r < table.count; ++r) {
      max[r] = sink_in_units(table.sink[r], natural);
      sum[r] = max[r] == -INFINITY ? 0.0f : 1.0f;
    }
  }
};

// 0 for a row that has seen nothing, so that differences to it are not NaN.
FOVEA_INLINE Float finite_max(const Float &row_max) { return choose(row_max == minus_infinity(), zero(), row_max); }

FOVEA_INLINE Float tile_max(const float *scores, int64_t stride, int64_t keys) {
  Float best[chains];
  unroll<chains>([&](auto i) FOVEA_INLINE_BODY { best[i] = minus_infinity(); });
  int64_t j = 0;
  for (; j + chains <= keys; j += chains) {
    unroll<chains>([&](auto i) FOVEA_INLINE_BODY { best[i] = larger(load(scores + (j + i) * stride), best[i]); });
  }
  for (; j < keys; ++j) best[0] = larger(load(scores + j * stride), best[0]);
  unroll<chains - 1>([&](auto i) FOVEA_INLINE_BODY { best[0] = larger(best[0], best[i + 1]); });
  return best[0];
}

// The weights of `count` keys from scores[0] on, in place and added to their chains.
template <int count>
FOVEA_INLINE void exponentiate_keys(float *scores, int64_t stride, const Float &row_max, const ScaledExp2 &exponent,
                                    Float (&sum)[chains]) {
  Float weight[count];
  unroll<count>([&](auto i) FOVEA_INLINE_BODY { weight[i] = load(scores + i * stride) - row_max; });
  exponent.apply(weight);
  unroll<count>([&](auto i) FOVEA_INLINE_BODY {
    store(scores + i * stride, weight[i]);
    sum[i] = sum[i] + weight[i];
  });
}

// Replaces scores by weights relative to row_max; returns their sum. Key j always adds to chain j % chains, so that
// zeros of masked keys before or behind a row's own do not change the order of its sum.
FOVEA_INLINE Float exponentiate(float *scores, int64_t stride, int64_t keys, const Float &row_max,
                                const ScaledExp2 &exponent) {
  Float sum[chains];
  unroll<chains>([&](auto i) FOVEA_INLINE_BODY { sum[i] = zero(); });
  int64_t j = 0;
  for (; j + chains <= keys; j += chains) {
    exponentiate_keys<chains>(scores + j * stride, stride, row_max, exponent, sum);
  }
  unroll<chains - 1>([&](auto i) FOVEA_INLINE_BODY {
    if (keys - j == i + 1) {
      exponentiate_keys<decltype(i)::value + 1>(scores + j * stride, stride, row_max, exponent, sum);
    }
  });
  unroll<chains - 1>([&](auto i) FOVEA_INLINE_BODY { sum[0] = sum[0] + sum[i + 1]; });
  return sum[0];
}

// What the softmax of a tile takes.
template <int64_t rows>
FOVEA_INLINE SoftmaxTile softmax_tile(SoftmaxState<rows> &state, const ScoreTile &tile, const ScaledExp2 &exponent) {
  return {.max = state.max,
          .sum = state.sum,
          .rescale = state.rescale,
          .scores = tile.scores,
          .stride = tile.stride,
          .vectors = tile.vectors,
          .keys = tile.keys,
          .exponent_scale = exponent.factor};
}

FOVEA_INLINE void softmax_of_rows(const SoftmaxTile &tile) {
  const ScaledExp2 exponent(tile.exponent_scale);
  for (int64_t v = 0; v < tile.vectors; ++v) {
    float *scores = tile.scores + v * lanes;
    const Float old_max = load(tile.max + v * lanes);
    const Float new_max = larger(tile_max(scores, tile.stride, tile.keys), old_max);
    const Float base = finite_max(new_max);
    const Float rescale = exponent(old_max - base);
    const Float sum = exponentiate(scores, tile.stride, tile.keys, base, exponent);
    store(tile.max + v * lanes, new_max);
    store(tile.rescale + v * lanes, rescale);
    store(tile.sum + v * lanes, multiply_add(load(tile.sum + v * lanes), rescale, sum));
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
