// exp and tanh for results of 16 bits from arguments of the same type: float32 arithmetic with no more of it than the
// type's 8 or 11 bits need. Errors before the result is rounded to the type:
//
// 2^t: t = n + f, polynomial of degree 4 in f, error 2^-18.5: 0.0006 of the type's last place for bfloat16, 0.006 for
// binary16. e^x adds the rounding of t = x log2 e, 2^-24 |t|, and |t| <= 134 where the result is no bound of the type,
// 25 for binary16.
//
// tanh x with AVX-512: 16 intervals of |x| as in math/by_table.hpp, but over as much of |x| as the type has results
// below 1; polynomials in |x| itself, of degree 3, error 2^-16.8 for bfloat16, 2^-16.6 for binary16. With AVX2 a
// quotient of polynomials in x^2, of degree 2 and 2, error 2^-17.1, and 2 and 3, 2^-19.6.
//
// All minimise the largest relative error.
#pragma once

#include "kernels/math/by_table.hpp"
#include "kernels/narrow_pairs.hpp"

#if defined(__AVX2__)
namespace fovea::FOVEA_ISA {
namespace {

#if defined(__AVX512F__)

// NaN stays NaN; infinite, subnormal and zero results are those of float32.
FOVEA_INLINE Float narrow_exp2(const Float &t) {
  const Float f = fraction_above_floor(t);
  Float power = multiply_add(f, splat(0x1.bb7cd4p-7f), splat(0x1.aa13f2p-5f));
  power = multiply_add(power, f, splat(0x1.ee798ap-3f));
  power = multiply_add(power, f, splat(0x1.62d166p-1f));
  power = multiply_add(power, f, splat(0x1.00002cp+0f));
  return times_power_of_2(power, t);
}

// 2^t for t <= 1/2, times some power of two that is the same for all t.
FOVEA_INLINE Float narrow_exp2_of_negative(const Float &t) { return narrow_exp2(t); }

// In place, of a pair of registers.
template <class Element>
FOVEA_INLINE void narrow_exp(Float *a, Float *b) {
  *a = narrow_exp2(*a * log2_of_e);
  *b = narrow_exp2(*b * log2_of_e);
}

constexpr int narrow_tanh_degree = 3;

// The table of each coefficient; intervals as in tanh_by_table.
template <class Element>
struct NarrowTanh;
template <>
struct NarrowTanh<Bfloat16> {
  static constexpr float bound = 3.57f, octaves = 4.2f;
  alignas(64) static constexpr float c[narrow_tanh_degree + 1][16] = {
      {-0x1.00d358p-10f, -0x1.2d3ebcp-8f, -0x1.aec2d6p-7f, -0x1.c49e60p-6f, -0x1.c76698p-5f, -0x1.63acfcp-4f,
       -0x1.3e21e2p-4f, -0x1.d25d6ep-7f, 0x1.37e650p-3f, 0x1.af46aep-2f, 0x1.4a1e98p-1f, 0x1.97d676p-1f, 0.0f,
       -0x1.4f1ddap-19f, -0x1.2590bep-15f, -0x1.85d5dcp-13f},
      {0x1.034844p+0f, 0x1.0afe78p+0f, 0x1.18c0bcp+0f, 0x1.2b742ap+0f, 0x1.48bf58p+0f, 0x1.62a5c6p+0f, 0x1.5d409ap+0f,
       0x1.3b5f96p+0f, 0x1.e18378p-1f, 0x1.1f157ap-1f, 0x1.35401ap-2f, 0x1.3a49c2p-3f, 1.0f, 0x1.00076ap+0f,
       0x1.003b7cp+0f, 0x1.00df7ap+0f},
      {-0x1.e7ca8ep-5f, -0x1.26012ep-3f, -0x1.06a216p-2f, -0x1.84a33ep-2f, -0x1.1264fep-1f, -0x1.4a6c8cp-1f,
       -0x1.423908p-1f, -0x1.130de6p-1f, -0x1.77b70cp-2f, -0x1.808be4p-3f, -0x1.67dacap-4f, -0x1.42684cp-5f,
       -0x1.42e57ap-16f, -0x1.d4795ap-10f, -0x1.10c190p-7f, -0x1.6c0204p-6f},
      {-0x1.d5ecc2p-3f, -0x1.353becp-3f, -0x1.25b258p-4f, -0x1.472074p-9f, 0x1.1a45aap-4f, 0x1.bc329ep-4f,
       0x1.abbea4p-4f, 0x1.5416acp-4f, 0x1.9804e0p-5f, 0x1.61970ep-6f, 0x1.1d2d12p-7f, 0x1.c03b58p-9f, -0x1.548e38p-2f,
       -0x1.4ab3a2p-2f, -0x1.382902p-2f, -0x1.1db570p-2f}};
};
template <>
struct NarrowTanh<Float16> {
  static constexpr float bound = 4.61f, octaves = 3.25f;
  alignas(64) static constexpr float c[narrow_tanh_degree + 1][16] = {
      {-0x1.9b8666p-9f, -0x1.b1d92ap-7f, -0x1.0e830ep-5f, -0x1.e14ac6p-5f, -0x1.61bdb2p-4f, -0x1.044670p-4f,
       0x1.7b2fc2p-5f, 0x1.ae968cp-3f, 0x1.d61e68p-2f, 0x1.70fe24p-1f, 0x1.bd3104p-1f, 0x1.e2b1d2p-1f, 0.0f,
       -0x1.2aa672p-17f, -0x1.00b188p-13f, -0x1.4b6468p-11f},
      {0x1.08353ap+0f, 0x1.18f0a4p+0f, 0x1.31aed4p+0f, 0x1.4b872ep+0f, 0x1.6256e6p+0f, 0x1.551c9ep+0f, 0x1.1e89c6p+0f,
       0x1.b46192p-1f, 0x1.067b50p-1f, 0x1.cbd7f6p-3f, 0x1.732eb2p-4f, 0x1.1e3d0ep-5f, 1.0f, 0x1.001478p+0f,
       0x1.00a152p+0f, 0x1.024e60p+0f},
      {-0x1.dd8856p-4f, -0x1.086b42p-2f, -0x1.aa08b2p-2f, -0x1.18bc4cp-1f, -0x1.49e890p-1f, -0x1.360652p-1f,
       -0x1.de97a4p-2f, -0x1.4a07f2p-2f, -0x1.571712p-3f, -0x1.f812d0p-5f, -0x1.5d408cp-6f, -0x1.d7968ep-8f,
       -0x1.5bf582p-15f, -0x1.f4d2dap-9f, -0x1.1eff50p-6f, -0x1.762836p-5f},
      {-0x1.62a864p-3f, -0x1.204c34p-4f, 0x1.01fcfcp-6f, 0x1.2d764cp-4f, 0x1.bb1152p-4f, 0x1.9369aap-4f, 0x1.18ff34p-4f,
       0x1.5a789cp-5f, 0x1.332104p-6f, 0x1.772884p-8f, 0x1.bc00fep-10f, 0x1.059dc0p-11f, -0x1.54092cp-2f,
       -0x1.43b764p-2f, -0x1.259fcep-2f, -0x1.f8332ep-3f}};
};

template <class Element>
FOVEA_INLINE Float narrow_tanh_of(const Float &x) {
  using Table = NarrowTanh<Element>;
  constexpr int degree = narrow_tanh_degree;
  const Float magnitude = at_most(xsimd::abs(x), Table::bound);
  const Float octaves = multiply_add(magnitude, splat(Table::octaves), splat(1.0f));
  const __m512i interval = _mm512_srli_epi32(_mm512_castps_si512(octaves), 21);
  Float value = pick_of_16(interval, Table::c[degree]);
  unroll<degree>([&](auto k) FOVEA_INLINE_BODY {
    value = multiply_add(value, magnitude, pick_of_16(interval, Table::c[degree - 1 - k]));
  });
  return with_sign_of(value, x);
}

#else

// 2^f for |f| <= 1/2, times `factor`.
template <int factor = 1>
FOVEA_INLINE Float narrow_exp2_of_fraction(const Float &f) {
  Float p = multiply_add(f, splat(factor * 0x1.3997d6p-7f), splat(factor * 0x1.ca1442p-5f));
  p = multiply_add(p, f, splat(factor * 0x1.ec06dap-3f));
  p = multiply_add(p, f, splat(factor * 0x1.62e0dcp-1f));
  return multiply_add(p, f, splat(factor * 0x1.ffffe8p-1f));
}

// 2^(t + bfloat16_lift) for t <= 1/2, as LiftedExp2's: 0 for t <= -134.5, and no subnormal number.
FOVEA_INLINE Float narrow_exp2_of_negative(const Float &t) {
  constexpr float octaves = 126.0f + bfloat16_lift;
  constexpr float magic = round_magic + octaves;
  const Float bounded = at_least(t, -octaves);
  const Float biased = bounded + magic;
  const Float f = bounded - (biased - magic);
  return narrow_exp2_of_fraction<2>(f) * exponent_from(bits_of(biased));
}

// 2^t as a factor p and an integer n; t is within +-200.
struct NarrowPower {
  Float p;
  Int n;  // and bits of the magic number above the lowest 9

  FOVEA_INLINE explicit NarrowPower(const Float &x) : p(x), n(0) {
    const Float biased = multiply_add(x, splat(log2_of_e), splat(round_magic));
    const Float f = multiply_add(x, splat(log2_of_e), splat(round_magic) - biased);
    p = narrow_exp2_of_fraction(f);
    n = bits_of(biased);
  }
  // p 2^n, which is no subnormal number, infinity or NaN.
  FOVEA_INLINE Float ordinary() const { return float_of(bits_of(p) + (n << 23)); }
  // As exp_register's.
  FOVEA_INLINE Float any() const {
    const Int biased = n + 254, half = biased >> 1;
    return p * exponent_from(half) * exponent_from(biased - half);
  }
};

// Where all of two registers is within +-64, powers of 2 go straight to the exponents; elsewhere the same, whole range.
template <class Element>
FOVEA_INLINE void narrow_exp(Float *a, Float *b) {
  if (__builtin_expect(xsimd::all(xsimd::abs(*a) <= splat(64.0f) & xsimd::abs(*b) <= splat(64.0f)), 1)) {
    *a = NarrowPower(*a).ordinary();
    *b = NarrowPower(*b).ordinary();
    return;
  }
  const auto clamped = [](const Float &x) FOVEA_INLINE_BODY { return at_most(at_least(x, -104.5f), 89.0f); };
  *a = NarrowPower(clamped(*a)).any();
  *b = NarrowPower(clamped(*b)).any();
}

template <class Element>
FOVEA_INLINE Float narrow_tanh_of(const Float &x) {
  constexpr bool is_bfloat16 = same_type<Element, Bfloat16>;
  constexpr float bound = is_bfloat16 ? 3.6f : 4.65f;
  const Float y = at_least(at_most(x, bound), -bound);
  const Float z = y * y;
  Float numerator, denominator;
  if constexpr (is_bfloat16) {
    numerator = multiply_add(z, splat(0x1.a93772p-11f), splat(0x1.b3a26cp-4f));
    denominator = multiply_add(z, splat(0x1.ce0ba8p-7f), splat(0x1.c22f42p-2f));
  } else {
    numerator = multiply_add(z, splat(0x1.b83446p-10f), splat(0x1.e0040ep-4f));
    denominator = multiply_add(z, splat(0x1.1aed74p-14f), splat(0x1.2f9fe0p-6f));
    denominator = multiply_add(denominator, z, splat(0x1.cd53b6p-2f));
  }
  numerator = multiply_add(numerator, z, splat(is_bfloat16 ? 0x1.ffff1ep-1f : 0x1.ffffd8p-1f));
  denominator = multiply_add(denominator, z, splat(1.0f));
  return quotient(y * numerator, denominator);
}

#endif

template <class Element>
FOVEA_INLINE void narrow_tanh(Float *a, Float *b) {
  *a = narrow_tanh_of<Element>(*a);
  *b = narrow_tanh_of<Element>(*b);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
#endif
