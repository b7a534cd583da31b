// Online softmax for weights that will be bfloat16 or binary16, on blocks of scores[key][row]: lanes are rows.
//
//   weight = 2^(factor * score - reference)        factor = scale * log2(e)
//
// The reference of a row is the factor times its largest score of a while ago: it follows only when the largest has
// grown by more than 2^8, so what has been summed is hardly ever multiplied (weights up to 2^8 are as exact as those up
// to 1). Softmax does not depend on the reference, so its own rounding costs nothing: factor * score - reference is one
// multiply-add, rounded once. Only where the reference is large, its rounding would be large, too; there the difference
// of scores is taken first.
//
// 2^x = 2^floor(x) p(x - floor(x)), p a cubic with p(0) = 1 and a relative error below 8.6e-5, a fortieth of
// bfloat16's. It lies in [1, 2], where bfloat16's places are 2^-7 apart: with half of that in its constant term,
// cutting the lower half off rounds it to nearest (ties up), for any power of two. The sums of weights are sums of the
// rounded ones, so they fit what the tiles sum up.
//
// Weights that will be binary16 start at 2^7, so that they end, 2^15, below its largest number: those below 2^-21 of
// the largest are subnormal, and a weight is 0 if 2^31 of its kind would be needed to show. The processor's conversion
// rounds them, and sums take the weights before that.
//
// Instructions for 32 scores, two registers: 2 x (multiply-add, reduce, three multiply-adds, scale), shift, merge, sum;
// with their two maxima 17, of which a reduce is two micro-operations: 9.5 cycles on two ports, where tiles take
// (head_dim + value_dim) / 16. Binary16, whose conversions are two each, takes 26 and 14 cycles.
#pragma once

#include <math.h>

#include "beyond_xsimd/bfloat16_pairs.hpp"
#include "kernels/attention/amx_products.hpp"
#include "kernels/attention/logit_terms.hpp"
#include "kernels/math/exp.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr float most_growth = 8.0f;                 // of exponents, before the reference follows
constexpr float largest_plain_reference = 4096.0f;  // of which rounding costs 2^-13 of an exponent

FOVEA_INLINE __m512 register_of(float value) { return _mm512_set1_ps(value); }

// 2^x by the cubic above, whose constant term is `one`. 0 for -infinity, NaN for NaN.
FOVEA_INLINE __m512 cubic_exp2(__m512 x, float one) {
  const __m512 fraction = _mm512_reduce_ps(x, 0x09);  // x - floor(x)
  __m512 power = _mm512_fmadd_ps(fraction, register_of(0x1.3baaa6p-4f), register_of(0x1.d2378ap-3f));
  power = _mm512_fmadd_ps(power, fraction, register_of(0x1.63e658p-1f));
  power = _mm512_fmadd_ps(power, fraction, register_of(one));
  return _mm512_scalef_ps(power, x);
}

// The upper halves of two registers as pairs.
FOVEA_INLINE __m512 upper_pairs(__m512 first, __m512 second) {
  const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(first), 16);
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(low, _mm512_castps_si512(second), _mm512_set1_epi32(-0x10000), 0xf8));
}

FOVEA_INLINE __m512 pair_of_ones() { return _mm512_castsi512_ps(_mm512_set1_epi32(0x3f803f80)); }

// Weights as elements of the tiles' type.
//   exponent         the weight of a row's largest score is 2^exponent when the reference is taken from it
//   power(x)         2^x, with room for rounding
//   pair(...)        two keys' weights, rounded, as pairs
//   add(sum, ...)    sum + both, which `pair` holds
template <class Element>
struct TileWeights;

template <>
struct TileWeights<Bfloat16Tiles> {
  static constexpr float exponent = 0.0f;
  FOVEA_INLINE static __m512 power(__m512 x) { return cubic_exp2(x, 1.0f + 0x1p-8f); }
  FOVEA_INLINE static __m512 pair(__m512 first, __m512 second) { return upper_pairs(first, second); }
  FOVEA_INLINE static __m512 add(__m512 sum, __m512, __m512, __m512 pair) {
    return add_pair_products(sum, pair, pair_of_ones());
  }
};

template <>
struct TileWeights<Float16Tiles> {
  static constexpr float exponent = 7.0f;
  FOVEA_INLINE static __m512 power(__m512 x) { return cubic_exp2(x, 1.0f); }
  FOVEA_INLINE static __m512 pair(__m512 first, __m512 second) {
    return _mm512_castsi512_ps(join_rows(narrow_float16(first), narrow_float16(second)));
  }
  FOVEA_INLINE static __m512 add(__m512 sum, __m512 first, __m512 second, __m512) {
    return _mm512_add_ps(sum, _mm512_add_ps(first, second));
  }
};

struct TileSoftmax {
  alignas(64) float block_max[band_rows];  // of the present block's scores
  alignas(64) float max[band_rows];        // the reference, as a score
  alignas(64) float reference[band_rows];
  alignas(64) float rescale[band_rows];  // what the reference's last step asks for
  alignas(64) float sum[band_rows];
  alignas(64) float part[2][band_rows];  // of the present block's sum: even pairs of keys, odd ones
  alignas(64) float exact_max[band_rows], exact_sum[band_rows];  // in float32 throughout; only if they are wanted

  template <class Element>
  FOVEA_INLINE void start(const RowTable<band_rows> &table, bool has_sink, float natural, float factor) {
    for (int64_t r = 0; r < band_rows; ++r) {
      const float sink = has_sink && r < table.count ? sink_in_units(table.sink[r], natural) : -INFINITY;
      max[r] = exact_max[r] = sink;
      reference[r] = sink == -INFINITY ? 0.0f : sink * factor - TileWeights<Element>::exponent;
      exact_sum[r] = sink == -INFINITY ? 0.0f : 1.0f;
      sum[r] = exact_sum[r] * static_cast<float>(1 << static_cast<int>(TileWeights<Element>::exponent));
      rescale[r] = 1.0f;
      part[0][r] = part[1][r] = 0.0f;
    }
  }
};

// What the exponents of a register of rows are computed from.
template <class Element>
struct Exponents {
  __m512 factor, reference, max;
  __mmask16 large;  // rows whose reference is

  FOVEA_INLINE Exponents(const TileSoftmax &state, int64_t vector, float scale) {
    factor = register_of(scale);
    reference = _mm512_load_ps(state.reference + vector * lanes);
    max = _mm512_load_ps(state.max + vector * lanes);
    large = _mm512_cmp_ps_mask(_mm512_abs_ps(reference), register_of(largest_plain_reference), _CMP_NLE_UQ);
  }

  template <bool some_large>
  FOVEA_INLINE __m512 of(__m512 score) const {
    const __m512 plain = _mm512_fmsub_ps(score, factor, reference);
    if (!some_large) return plain;
    const __m512 below = _mm512_sub_ps(score, max);
    return _mm512_mask_mov_ps(plain, large,
                              _mm512_fmadd_ps(below, factor, register_of(TileWeights<Element>::exponent)));
  }
};

// How many keys one call to `weigh_keys` does.
constexpr int64_t slice_keys = 16;

// Scores of 16 keys, a register of rows, become weights: pairs of keys, where the first one's score was.
template <class Element, bool some_large>
FOVEA_INLINE void weigh_keys(TileSoftmax &state, float *scores, int64_t vector, const Exponents<Element> &exponents) {
  using Weights = TileWeights<Element>;
  float *at = scores + vector * lanes;
  const int64_t r = vector * lanes;
  __m512 sum[2] = {_mm512_load_ps(state.part[0] + r), _mm512_load_ps(state.part[1] + r)};
  constexpr int together = 4;  // pairs: enough chains for the latencies
  for (int64_t j = 0; j < slice_keys; j += 2 * together, at += 2 * together * band_rows) {
    __m512 weight[2 * together];
    unroll<2 * together>([&](auto i) FOVEA_INLINE_BODY {
      weight[i] = Weights::power(exponents.template of<some_large>(_mm512_load_ps(at + i * band_rows)));
    });
    unroll<together>([&](auto i) FOVEA_INLINE_BODY {
      const __m512 pair = Weights::pair(weight[2 * i], weight[2 * i + 1]);
      _mm512_store_ps(at + 2 * i * band_rows, pair);
      sum[i % 2] = Weights::add(sum[i % 2], weight[2 * i], weight[2 * i + 1], pair);
    });
  }
  _mm512_store_ps(state.part[0] + r, sum[0]);
  _mm512_store_ps(state.part[1] + r, sum[1]);
}

template <class Element>
FOVEA_INLINE void weigh_slice(TileSoftmax &state, float *scores, int64_t vector, float factor) {
  const Exponents<Element> exponents(state, vector, factor);
  exponents.large == 0 ? weigh_keys<Element, false>(state, scores, vector, exponents)
                       : weigh_keys<Element, true>(state, scores, vector, exponents);
}

// The same, where something is to be done to weights before they are pairs: they stay float32, already rounded to
// bfloat16.
FOVEA_NOINLINE inline void weigh_apart(TileSoftmax &state, float *scores, int64_t keys, int64_t vectors, float factor) {
  for (int64_t v = 0; v < vectors; ++v) {
    const Exponents<Bfloat16Tiles> exponents(state, v, factor);
    for (int64_t j = 0; j < keys; j += 2) {
      float *at = scores + j * band_rows + v * lanes;
      const __m512 first = TileWeights<Bfloat16Tiles>::power(exponents.of<true>(_mm512_load_ps(at)));
      const __m512 second = TileWeights<Bfloat16Tiles>::power(exponents.of<true>(_mm512_load_ps(at + band_rows)));
      float *sum = state.part[j / 2 % 2] + v * lanes;
      _mm512_store_ps(sum, add_pair_products(_mm512_load_ps(sum), upper_pairs(first, second), pair_of_ones()));
      const __m512i upper = _mm512_set1_epi32(-0x10000);
      _mm512_store_si512(at, _mm512_and_si512(_mm512_castps_si512(first), upper));
      _mm512_store_si512(at + band_rows, _mm512_and_si512(_mm512_castps_si512(second), upper));
    }
  }
}

FOVEA_NOINLINE inline void pair_weights(float *scores, int64_t keys, int64_t vectors) {
  for (int64_t j = 0; j < keys; j += 2) {
    for (int64_t v = 0; v < vectors; ++v) {
      float *at = scores + j * band_rows + v * lanes;
      _mm512_store_ps(at, pairs_of(_mm512_load_ps(at), _mm512_load_ps(at + band_rows)));
    }
  }
}

constexpr int64_t max_slice_keys = 32;

FOVEA_INLINE void start_max(TileSoftmax &state) {
  for (int64_t r = 0; r < band_rows; r += lanes) _mm512_store_ps(state.block_max + r, register_of(-INFINITY));
}

// The maxima over 32 keys of a register of rows. NaN is passed over: a row with one gives NaN whatever its maximum is.
FOVEA_INLINE void max_slice(TileSoftmax &state, const float *scores, int64_t vector) {
  const float *at = scores + vector * lanes;
  __m512 best[4];
  unroll<4>([&](auto i) FOVEA_INLINE_BODY { best[i] = register_of(-INFINITY); });
  for (int64_t j = 0; j < max_slice_keys; j += 4, at += 4 * band_rows) {
    unroll<4>([&](auto i) FOVEA_INLINE_BODY { best[i] = _mm512_max_ps(_mm512_load_ps(at + i * band_rows), best[i]); });
  }
  float *to = state.block_max + vector * lanes;
  const __m512 all = _mm512_max_ps(_mm512_max_ps(best[0], best[1]), _mm512_max_ps(best[2], best[3]));
  _mm512_store_ps(to, _mm512_max_ps(all, _mm512_load_ps(to)));
}

// Moves the references that have to follow the block's largest scores; whether any row's sums have to be multiplied.
template <class Element>
FOVEA_INLINE bool follow_max(TileSoftmax &state, int64_t vectors, float scale, float allowed_growth) {
  uint32_t any = 0;
  const __m512 factor = register_of(scale);
  for (int64_t r = 0; r < vectors * lanes; r += lanes) {
    const __m512 now = _mm512_load_ps(state.block_max + r);
    const __m512 old = _mm512_load_ps(state.max + r);
    const __mmask16 first = _mm512_cmp_ps_mask(old, register_of(-INFINITY), _CMP_EQ_OQ);
    const __m512 growth = _mm512_mul_ps(_mm512_sub_ps(now, old), factor);
    const __mmask16 grown = _mm512_cmp_ps_mask(growth, register_of(allowed_growth), _CMP_GT_OQ);
    const __m512 old_reference = _mm512_load_ps(state.reference + r);
    const __m512 followed = _mm512_fmsub_ps(now, factor, register_of(TileWeights<Element>::exponent));
    const __m512 reference = _mm512_mask_mov_ps(old_reference, grown, followed);
    const __mmask16 large =
        _mm512_cmp_ps_mask(_mm512_abs_ps(reference), register_of(largest_plain_reference), _CMP_NLE_UQ);
    const __m512 step = _mm512_mask_sub_ps(_mm512_sub_ps(old_reference, reference), large, _mm512_setzero_ps(), growth);
    const __m512 rescale = Float(ScaledExp2(1.0f)(Float(step))).data;
    const __mmask16 multiplied = static_cast<__mmask16>(grown & ~first);
    _mm512_store_ps(state.rescale + r, _mm512_mask_mov_ps(register_of(1.0f), multiplied, rescale));
    _mm512_store_ps(state.max + r, _mm512_mask_mov_ps(old, grown, now));
    _mm512_store_ps(state.reference + r, reference);
    any |= multiplied;
  }
  return any != 0;
}

// Called when the block's weights have been added to its parts.
FOVEA_INLINE void end_sum(TileSoftmax &state, int64_t vectors) {
  for (int64_t r = 0; r < vectors * lanes; r += lanes) {
    const __m512 part = _mm512_add_ps(_mm512_load_ps(state.part[0] + r), _mm512_load_ps(state.part[1] + r));
    _mm512_store_ps(state.sum + r,
                    _mm512_fmadd_ps(_mm512_load_ps(state.sum + r), _mm512_load_ps(state.rescale + r), part));
    _mm512_store_ps(state.part[0] + r, _mm512_setzero_ps());
    _mm512_store_ps(state.part[1] + r, _mm512_setzero_ps());
  }
}

// What log-sum-exp and returned weights are computed from, as exact as float32's.
FOVEA_NOINLINE inline void add_exact_sums(TileSoftmax &state, const float *scores, int64_t keys, int64_t vectors,
                                          const ScaledExp2 &exponent) {
  for (int64_t r = 0; r < vectors * lanes; r += lanes) {
    const Float old_max = load(state.exact_max + r);
    const Float new_max = Float(_mm512_max_ps(_mm512_load_ps(state.block_max + r), old_max.data));
    const Float base = choose(new_max == minus_infinity(), zero(), new_max);
    Float sum[4] = {zero(), zero(), zero(), zero()};
    for (int64_t j = 0; j < keys; j += 4) {
      Float weight[4];
      unroll<4>([&](auto i) FOVEA_INLINE_BODY { weight[i] = load(scores + (j + i) * band_rows + r) - base; });
      exponent.apply(weight);
      unroll<4>([&](auto i) FOVEA_INLINE_BODY { sum[i] = sum[i] + weight[i]; });
    }
    const Float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    store(state.exact_max + r, new_max);
    store(state.exact_sum + r, multiply_add(load(state.exact_sum + r), exponent(old_max - base), all));
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
