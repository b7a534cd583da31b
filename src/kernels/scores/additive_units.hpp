// Sums of v_u tanh(a_u + b_u) over hidden units without a tanh for each, from what was made once for each query and
// each key. A row (of a query's or a key's units) has a reach, the largest |a_u|, and is kept as one of three things:
//
//   up to tangent_reach   tangents     tanh a
//   up to largest_reach   exponentials g = e^(-2a) of a query, f = e^(2b) of a key
//   else, or not finite   the units themselves
//
// What two rows give together (UnitForm):
//   tangent     both are tangents:   tanh(a + b) = (tanh a + tanh b) / (1 + tanh a tanh b)
//   shared      reaches up to 9:     tanh(a + b) = (f - g) / (f + g), four units to a reciprocal
//   single      both exponentials:   the same, a reciprocal for each unit
//   corrected   of few units:        the same, and what is left of the numerator divided once more
//   direct      else                 e^(2a) is multiplied in as e^a twice, so that none overflows alone
// For all but the first, tangents are turned into exponentials: e^(2b) = (1 + tanh b) / (1 - tanh b).
//
// The sign of the query's exponent makes the denominator a sum: where additions have ports of their own (Zen 4) they
// cost next to nothing, elsewhere as much as the multiply-add of 1 + e^(2a) e^(2b). So does the numerator, v f - v g.
// In the first two, four units share one reciprocal: n1/d1 + n2/d2 = (n1 d2 + n2 d1) / (d1 d2), and the same once more.
// With reaches up to 9 the product of four d is between 2^-104 and 2^108: nothing can overflow.
//
// Error, in units of 2^-24. Tangents have only relative errors, those of tanh a and tanh b 2 each and the rest 13, so
// that small arguments keep their digits. f and g are off by 4 each (2 ulp), which changes (f - g) / (f + g) by 4 at
// most, v f and v g are rounded once more, which adds 1; all else is relative to tanh: n and d 1 each, the sharing of a
// reciprocal 6 (four roundings of a numerator, two of a denominator), the reciprocal itself 5. Together at most 18;
// 2^-19 is 32. For random units the whole error is 1.0 to 1.7 times that of a tanh for each unit in float32 with
// pairwise sums (root mean square). With fewer than 32 units errors do not average out, so they are corrected, and so
// are all units with very large or very small weights, whose products could overflow: then every query that does not
// hold tangents is taken to have a least reach, set with the score vector. Sums add what plain sums do.
#pragma once

#include <math.h>

#include "kernels/kernel_table.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/math/tanh.hpp"
#include "kernels/prefetch.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr float tangent_reach = 0.4f;
constexpr float shared_reach = 9.0f;
constexpr float largest_denominator = 1073741824.0f;  // 2^30
constexpr int units_at_once = 4;

// 1 / x for x in [2^-125, 2^125], relative error below 3e-7. The processor's estimate (relative error 2^-12 or 2^-14)
// and one step of Newton's rule where it has one worth having.
FOVEA_INLINE Float reciprocal(const Float &x) {
#if defined(__AVX2__)
  const Float estimate = xsimd::reciprocal(x);
  return multiply_add(estimate, xsimd::fnma(x, estimate, splat(1.0f)), estimate);
#else
  return quotient(splat(1.0f), x);
#endif
}

// w[0]/d[0] + ... + w[3]/d[3] + sum, rounded once at the end
FOVEA_INLINE Float add_quotients(const Float (&w)[units_at_once], const Float (&d)[units_at_once], const Float &sum) {
  const Float left = multiply_add(w[1], d[0], w[0] * d[1]);
  const Float right = multiply_add(w[3], d[2], w[2] * d[3]);
  const Float left_product = d[0] * d[1];
  const Float right_product = d[2] * d[3];
  const Float numerator = multiply_add(right, left_product, left * right_product);
  return multiply_add(numerator, reciprocal(left_product * right_product), sum);
}

enum class UnitForm { tangent, shared, single, corrected, direct };

template <UnitForm form>
constexpr bool shares_reciprocals = form == UnitForm::tangent || form == UnitForm::shared;

// Whether a call has as many units, and weights of such sizes, as sharing takes.
FOVEA_INLINE bool may_share(const AttentionProblem &problem) { return problem.score.least_reach <= shared_reach; }

FOVEA_INLINE UnitForm unit_form(float query_reach, float key_reach, const AttentionProblem &problem) {
  const auto both = [&](float most) FOVEA_INLINE_BODY { return query_reach <= most && key_reach <= most; };
  if (both(tangent_reach)) return UnitForm::tangent;
  if (both(shared_reach) && may_share(problem)) return UnitForm::shared;
  if (!(both(largest_reach) && problem.score.least_reach <= largest_reach)) return UnitForm::direct;
  return may_share(problem) ? UnitForm::single : UnitForm::corrected;
}

// A unit of a query, with its weight v, against one of a key: numerator / denominator, in the forms that share.
template <UnitForm form>
struct UnitTerms {
  Float first, second;  // g and -v g, or tanh a and v tanh a

  // Numerator, from the key's unit times v, and denominator, from the key's unit.
  FOVEA_INLINE Float numerator(const Float &product) const { return product + second; }
  FOVEA_INLINE Float denominator(const Float &key) const {
    if constexpr (form == UnitForm::tangent) return multiply_add(first, key, splat(1.0f));
    return first + key;
  }
};

// tanh(a + b) of exponentials, by itself.
template <UnitForm form>
FOVEA_INLINE Float single_unit(const Float &query, const Float &key) {
  const Float numerator = key - query;
  const Float denominator = key + query;
  const Float inverse = reciprocal(denominator);
  const Float quotient = numerator * inverse;
  if constexpr (form == UnitForm::single) return quotient;
  return multiply_add(xsimd::fnma(quotient, denominator, numerator), inverse, quotient);
}

// e^(2a) of t = tanh a.
FOVEA_INLINE Float exponential_of_tangent(const Float &t) { return quotient(splat(1.0f) + t, splat(1.0f) - t); }

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
    return tanh_register(query + key);
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
  FOVEA_INLINE Float of_lanes() const { return choose(sound, most, splat(INFINITY)); }
  FOVEA_INLINE float of_all() const { return horizontal_max(of_lanes()); }
};

// e^(2 times a unit), 2 being the factor's size, of units within the largest reach; anything of others. Without what
// exp_register does for results that are denormal or infinite it is 12 instructions instead of 20.
FOVEA_INLINE Float unit_exponential(const Float &unit, float factor) {
  constexpr float magic = round_magic + 127.0f;
  const Float x = unit * splat(factor);
  const Float biased = multiply_add(x, splat(log2_of_e), splat(magic));
  const Float n = biased - splat(magic);
  const Float r = multiply_add(n, splat(-ln_2_low), multiply_add(n, splat(-ln_2_high), x));
  const Float power = exponent_from(bits_of(biased));
  return multiply_add(r, exp_slope(r), splat(1.0f)) * power;
}

FOVEA_INLINE Float query_exponential(const Float &unit) { return unit_exponential(unit, -2.0f); }

// Turns a key's projected units into what is kept of them; returns the reach. Behind `units` there are zeros.
inline float prepare_key_units(float *key, int64_t units) {
  const int64_t padded = padded_units(units);
  Reach reach;
  for (int64_t u = 0; u < padded; u += lanes) reach.take(load(key + u));
  const float value = reach.of_all();
  if (value <= tangent_reach) {
    for (int64_t u = 0; u < padded; u += lanes) store(key + u, tanh_register(load(key + u)));
  } else if (value <= largest_reach) {
    for (int64_t u = 0; u < padded; u += lanes) store(key + u, unit_exponential(load(key + u), 2.0f));
  }
  return value;
}

// A row is as much as a core's stores run ahead by: asked for earlier, memory is busy during the arithmetic.
FOVEA_INLINE void fetch_to_write(const float *row, int64_t units) {
  for (int64_t u = 0; u < units; u += line_floats) __builtin_prefetch(row + u, 1, 3);
}

inline void finish_units(const UnitRows &rows) {
  const int64_t padded = padded_units(rows.units);
  for (int64_t r = 0; r < rows.count; ++r) {
    float *row = rows.rows + r * rows.step * padded;
    const size_t bytes = static_cast<size_t>(rows.units) * sizeof(float);
    if (rows.given != nullptr) memcpy(row, rows.given + r * rows.given_stride, bytes);
    for (int64_t u = rows.units; u < padded; ++u) row[u] = 0.0f;
    for (int64_t u = 0; rows.bias != nullptr && u < rows.units; ++u) row[u] += rows.bias[u];
    if (r < rows.kept_count) {
      if (r + 2 < rows.kept_count) fetch_to_write(rows.kept + (r + 2) * rows.kept_stride, rows.units);
      memcpy(rows.kept + r * rows.kept_stride, row, bytes);
    }
    if (rows.reach != nullptr) rows.reach[r * rows.step] = prepare_key_units(row, rows.units);
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
