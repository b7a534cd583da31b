// Sums of v_u tanh(a_u + b_u) over hidden units without a tanh for each: with E = e^(2a) and F = e^(2b), made once for
// each query and each key,
//   tanh(a + b) = 1 - 2 / d,   d = 1 + E F
//   sum_u v_u tanh = sum_u v_u - 2 sum_u v_u / d_u
// Four units share one reciprocal: v1/d1 + v2/d2 = (v1 d2 + v2 d1) / (d1 d2), and the same once more.
//
// A row (of a query's or a key's units) has a reach, the largest |a_u|. Up to largest_reach a row holds exponentials;
// above, and if anything in it is not finite, it keeps the units themselves. What two rows give together:
//   reaches add up to at most 10.8   products of four d stay below 2^126: nothing can overflow
//   both rows hold exponentials      d is cut off at 2^30, where 2 / d no longer counts: 1 instruction more for a unit
//   else                             unit by unit: e^(2a) is multiplied in as e^a twice, so that none overflows alone
//
// Error, in units of 2^-24: a unit's 2/d is off by at most about 10 (E and F 2 ulp each, d 1, the reciprocal 3, its use
// 4) times |v_u| / 2, since d/dx of 1/(1+e^2x) is at most 1/2; sums add what plain sums do.
#pragma once

#include <math.h>

#include "kernels/exp.hpp"
#include "kernels/table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr float largest_reach = 40.0f;
constexpr float safe_reach = 10.8f;
constexpr float largest_denominator = 1073741824.0f;  // 2^30
constexpr int units_at_once = 4;

constexpr int64_t padded_units(int64_t units) { return round_up(units, 16); }

// 1 / x for x in [1, 2^126], relative error below 3e-7. The processor's estimate (relative error 2^-12 or 2^-14) and
// one step of Newton's rule where it has one worth having.
FOVEA_INLINE Float reciprocal(const Float &x) {
#if defined(__AVX2__)
  const Float estimate = xsimd::reciprocal(x);
  return multiply_add(estimate, xsimd::fnma(x, estimate, splat(1.0f)), estimate);
#else
  return quotient(splat(1.0f), x);
#endif
}

// v[0]/d[0] + ... + v[3]/d[3] + sum
FOVEA_INLINE Float add_quotients(const Float (&v)[units_at_once], const Float (&d)[units_at_once], const Float &sum) {
  const Float left = multiply_add(v[1], d[0], v[0] * d[1]);
  const Float right = multiply_add(v[3], d[2], v[2] * d[3]);
  const Float left_product = d[0] * d[1];
  const Float right_product = d[2] * d[3];
  const Float numerator = multiply_add(right, left_product, left * right_product);
  return multiply_add(numerator, reciprocal(left_product * right_product), sum);
}

// How a query's and a key's units are held, hence what goes into d = 1 + e^(2(a + b)).
enum class UnitForm { fast, cut, general };

FOVEA_INLINE bool holds_exponentials(float reach) { return reach <= largest_reach; }

// Depends on the two rows alone, so no row's score depends on its neighbours.
FOVEA_INLINE UnitForm unit_form(float query_reach, float key_reach, bool finite_weights) {
  if (!holds_exponentials(query_reach) || !holds_exponentials(key_reach) || !finite_weights) return UnitForm::general;
  return query_reach + key_reach <= safe_reach ? UnitForm::fast : UnitForm::cut;
}

template <UnitForm form>
FOVEA_INLINE Float denominator(const Float &e, const Float &f) {
  const Float d = multiply_add(e, f, splat(1.0f));
  if constexpr (form == UnitForm::cut) return at_most(d, largest_denominator);
  return d;
}

// tanh(a + b) for rows of any reach; NaN and infinities give what tanh of the sum gives.
FOVEA_INLINE Float tanh_of_sum(const Float &query, bool query_is_exponential, const Float &key,
                               bool key_is_exponential) {
  constexpr float clamp = 85.0f;  // e^85 is finite, and with it e^(2a) e^(2b) is past the cut wherever |b| <= 40
  const auto half = [](const Float &unit)
                        FOVEA_INLINE_BODY { return exp_register(at_most(at_least(unit, -clamp), clamp)); };
  Float product;
  if (query_is_exponential && key_is_exponential) {
    product = query * key;
  } else if (query_is_exponential) {
    const Float h = half(key);
    product = query * h * h;
  } else if (key_is_exponential) {
    const Float h = half(query);
    product = key * h * h;
  } else {
    const Float h = half(query + key);
    product = h * h;
  }
  return splat(1.0f) - quotient(splat(2.0f), at_most(product + 1.0f, largest_denominator));
}

// Gathers reaches: a NaN fails every comparison, so soundness is tracked beside the maximum.
struct Reach {
  Float most = zero();
  Mask sound = zero() == zero();

  FOVEA_INLINE void take(const Float &unit) {
    const Float size = xsimd::abs(unit);
    most = larger(size, most);
    sound = sound & (size <= splat(largest_reach));
  }
  FOVEA_INLINE float value() const { return xsimd::all(sound) ? horizontal_max(most) : INFINITY; }
};

// Turns a key's projected units into what is kept of them, e^(2b) if its reach allows; returns the reach. `units` is
// padded.
inline float prepare_key_units(float *key, int64_t units) {
  Reach reach;
  for (int64_t u = 0; u < units; u += lanes) reach.take(load(key + u));
  const float value = reach.value();
  if (!holds_exponentials(value)) return value;
  for (int64_t u = 0; u < units; u += lanes) {
    const Float unit = load(key + u);
    store(key + u, exp_register(unit + unit));
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
