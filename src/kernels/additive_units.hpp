// Sums of v_u tanh(a_u + b_u) over hidden units without a tanh for each: with g = e^(-2a) and f = e^(2b), made once for
// each query and each key,
//   tanh(a + b) = 1 - 2 g / d,   d = g + f
//   sum_u v_u tanh = sum_u v_u - 2 sum_u w_u / d_u,   w = v g
// The sign of the query's exponent makes d a sum: where additions have ports of their own (Zen 4) they cost next to
// nothing, elsewhere as much as the multiply-add of 1 + e^(2a) e^(2b). Four units share one reciprocal:
// w1/d1 + w2/d2 = (w1 d2 + w2 d1) / (d1 d2), and the same once more.
//
// A row (of a query's or a key's units) has a reach, the largest |a_u|. Up to largest_reach a row holds exponentials;
// above, and if anything in it is not finite, it keeps the units themselves. What two rows give together:
//   both reaches at most 9           the product of four d is between 2^-104 and 2^108: nothing can overflow
//   both rows hold exponentials      a reciprocal for each unit
//   else                             unit by unit: e^(2a) is multiplied in as e^a twice, so that none overflows alone
// Products with very large or very small weights are left to the forms that bear them: then every query is taken to have
// a least reach, set with the score vector.
//
// Error of a unit, in units of 2^-24 |v_u|, with t = 2 g / d between 0 and 2: g and f are off by 4 each (2 ulp), which
// makes t (2 - t) / 2 of 8; all else is relative to t: w and d 1 each, the sharing of a reciprocal 6 (four roundings of a
// numerator, two of a denominator), the reciprocal itself 5. Together at most 26, where t is 2; 2^-19 is 32. Of many
// random units the worst is 9 (tests/scores_bounds.cpp). Sums add what plain sums do.
#pragma once

#include <math.h>

#include "kernels/exp.hpp"
#include "kernels/table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr float shared_reach = 9.0f;
constexpr float largest_denominator = 1073741824.0f;  // 2^30
constexpr int units_at_once = 4;

// 1 / x for x in [2^-125, 2^125], relative error below 3e-7. The processor's estimate (relative error 2^-12 or 2^-14) and
// one step of Newton's rule where it has one worth having.
FOVEA_INLINE Float reciprocal(const Float &x) {
#if defined(__AVX2__)
  const Float estimate = xsimd::reciprocal(x);
  return multiply_add(estimate, xsimd::fnma(x, estimate, splat(1.0f)), estimate);
#else
  return quotient(splat(1.0f), x);
#endif
}

// w[0]/d[0] + ... + w[3]/d[3] + sum
FOVEA_INLINE Float add_quotients(const Float (&w)[units_at_once], const Float (&d)[units_at_once], const Float &sum) {
  const Float left = multiply_add(w[1], d[0], w[0] * d[1]);
  const Float right = multiply_add(w[3], d[2], w[2] * d[3]);
  const Float left_product = d[0] * d[1];
  const Float right_product = d[2] * d[3];
  const Float numerator = multiply_add(right, left_product, left * right_product);
  return multiply_add(numerator, reciprocal(left_product * right_product), sum);
}

// How 1 - tanh is summed: four units share a reciprocal, or each has its own; or the tanh itself, in full.
enum class UnitForm { shared, single, direct };

FOVEA_INLINE UnitForm unit_form(float query_reach, float key_reach) {
  const auto both = [&](float most) FOVEA_INLINE_BODY { return query_reach <= most && key_reach <= most; };
  if (both(shared_reach)) return UnitForm::shared;
  return both(largest_reach) ? UnitForm::single : UnitForm::direct;
}

// tanh(a + b) where at least one row's units are kept as they are; NaN and infinities give what tanh of the sum gives.
FOVEA_INLINE Float tanh_of_sum(const Float &query, bool query_is_exponential, const Float &key,
                               bool key_is_exponential) {
  constexpr float clamp = 85.0f;  // e^85 is finite, and with it e^(2a) e^(2b) is past the cut wherever |b| <= 40
  const auto half = [](const Float &unit)
                        FOVEA_INLINE_BODY { return exp_register(at_most(at_least(unit, -clamp), clamp)); };
  Float product;
  if (query_is_exponential) {
    const Float h = half(key);
    product = quotient(h, query) * h;
  } else if (key_is_exponential) {
    const Float h = half(query);
    product = key * h * h;
  } else {
    const Float h = half(query + key);
    product = h * h;
  }
  return splat(1.0f) - quotient(splat(2.0f), at_most(product + 1.0f, largest_denominator));
}

// Gathers the reach of each lane: a NaN fails every comparison, so soundness is tracked beside the maximum.
struct Reach {
  Float most = zero();
  Mask sound = zero() == zero();

  FOVEA_INLINE void take(const Float &unit) {
    const Float size = xsimd::abs(unit);
    most = larger(size, most);
    sound = sound & (size <= splat(largest_reach));
  }
  // Not below `least`.
  FOVEA_INLINE Float of_lanes(float least) const { return choose(sound, larger(most, splat(least)), splat(INFINITY)); }
  FOVEA_INLINE float of_all(float least) const { return horizontal_max(of_lanes(least)); }
};

// e^(2 times a unit), 2 being the factor's size, of units within the largest reach; anything of others. Without what
// exp_register does for results that are denormal or infinite it is 12 instructions instead of 20.
FOVEA_INLINE Float unit_exponential(const Float &unit, float factor) {
  constexpr float magic = round_magic + 127.0f;
  const Float x = unit * splat(factor);
  const Float biased = multiply_add(x, splat(log2_of_e), splat(magic));
  const Float n = biased - splat(magic);
  const Float r = multiply_add(n, splat(-ln_2_low), multiply_add(n, splat(-ln_2_high), x));
  const Float power = exponent_from(xsimd::bitwise_cast<int32_t>(biased));
  return multiply_add(r, exp_slope(r), splat(1.0f)) * power;
}

FOVEA_INLINE Float query_exponential(const Float &unit) { return unit_exponential(unit, -2.0f); }

// Turns a key's projected units into what is kept of them, e^(2b) if its reach allows; returns the reach. `units` is
// padded.
inline float prepare_key_units(float *key, int64_t units) {
  Reach reach;
  for (int64_t u = 0; u < units; u += lanes) reach.take(load(key + u));
  const float value = reach.of_all(0.0f);
  if (!(value <= largest_reach)) return value;
  for (int64_t u = 0; u < units; u += lanes) {
    store(key + u, unit_exponential(load(key + u), 2.0f));
  }
  return value;
}

inline void finish_units(const UnitRows &rows) {
  const int64_t padded = padded_units(rows.units);
  for (int64_t r = 0; r < rows.count; ++r) {
    float *row = rows.rows + r * rows.step * padded;
    for (int64_t u = rows.units; u < padded; ++u) row[u] = 0.0f;
    for (int64_t u = 0; rows.bias != nullptr && u < rows.units; ++u) row[u] += rows.bias[u];
    if (rows.reach != nullptr) rows.reach[r * rows.step] = prepare_key_units(row, padded);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
