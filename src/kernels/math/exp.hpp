// e^x and 2^t, a register at a time.
//
// Both write the argument as n + f with n an integer and |f| <= 1/2 (in units of log 2), take a polynomial in f by
// Horner's rule and multiply by 2^n. n comes from adding 1.5 * 2^23: the sum has no bits below 1, so it is rounded to
// the nearest integer, and its low bits hold that integer. A bias is added along with it, so that shifting the bits of
// the sum left by 23 yields the float 2^n. The power is multiplied in, never added to the exponent bits: NaN times
// anything stays NaN.
//
// The polynomials minimise the largest relative error on the interval with the constant term held at 1, each
// coefficient in turn rounded to float and those after it fitted again.
#pragma once

#include "kernels/simd.hpp"

#if defined(__AVX512F__)
#include "beyond_xsimd/tables_avx512.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

constexpr float round_magic = 12582912.0f;  // 1.5 * 2^23
constexpr float log2_of_e = 1.44269504088896341f;
// ln 2 in two parts. The first has 15 bits, so that its product with n, |n| < 2^9, is exact without FMA too.
constexpr float ln_2_high = 0x1.62e4p-1f;
constexpr float ln_2_low = 1.42860682e-06f;

// The float whose bits are those of `value` moved left by 23: what makes a biased integer an exponent.
FOVEA_INLINE Float exponent_from(const Int &value) { return float_of(value << 23); }

// 2^(factor * d) for d <= 0 and a positive factor: the inner loop of softmax. With t = factor * d: relative error below
// 6.8e-8 (9.2e-8 without FMA) beside that of t; exactly 1 at 0; 0 for t <= -125.5 and for -infinity, so that no
// denormal is ever made; NaN stays NaN. t > 0.5 is not allowed. t itself is never rounded: the product goes into the
// first two multiply-adds.
//
// To get the zero for nothing, the power is made as 2^(n-1), whose bits are 0 for n = -126, the least n after the
// clamp; the polynomial is doubled to make up for it. 12 instructions: max, 2 fma, sub, 6 fma, shift, mul.
//
// lifted: the power times 2^lifted, which is 0 for t <= -125.5 - lifted.
template <int lifted>
struct LiftedExp2 {
  static constexpr float octaves = 126.0f + lifted;
  float factor;
  float least;  // of d

  FOVEA_INLINE explicit LiftedExp2(float scale) : factor(scale), least(-octaves / scale) {}

  FOVEA_INLINE Float operator()(const Float &d) const {
    Float power[1] = {d};
    apply(power);
    return power[0];
  }

  // Step by step over `count` registers, in place. One power is a chain of 14 dependent instructions; written one after
  // the other, the core's scheduler holds too few chains to keep both ports busy.
  template <int count>
  FOVEA_INLINE void apply(Float (&d)[count]) const {
    constexpr float magic = round_magic + octaves;
    constexpr float coefficients[] = {2 * 0x1.5f083p-10f, 2 * 0x1.3b2de0p-7f, 2 * 0x1.c6af7cp-5f,
                                      2 * 0x1.ebfbdcp-3f, 2 * 0x1.62e430p-1f, 2.0f};
    Float exponent[count];
    Float power[count];
    unroll<count>([&](auto i) FOVEA_INLINE_BODY { d[i] = at_least(d[i], least); });
    unroll<count>([&](auto i) FOVEA_INLINE_BODY { exponent[i] = multiply_add(d[i], splat(factor), splat(magic)); });
    unroll<count>([&](auto i) FOVEA_INLINE_BODY { power[i] = splat(magic) - exponent[i]; });
    unroll<count>([&](auto i) FOVEA_INLINE_BODY { d[i] = multiply_add(d[i], splat(factor), power[i]); });
    unroll<count>([&](auto i) FOVEA_INLINE_BODY { exponent[i] = exponent_from(bits_of(exponent[i])); });
    unroll<count>([&](auto i) FOVEA_INLINE_BODY { power[i] = splat(2 * 0x1.416b4cp-13f); });
    unroll<6>([&](auto k) FOVEA_INLINE_BODY {
      unroll<count>([&](auto i) FOVEA_INLINE_BODY { power[i] = multiply_add(power[i], d[i], splat(coefficients[k])); });
    });
    unroll<count>([&](auto i) FOVEA_INLINE_BODY { d[i] = power[i] * exponent[i]; });
  }
};

using ScaledExp2 = LiftedExp2<0>;

// How far powers are lifted that become bfloat16 once they have been divided by their sum: where that is 1, those down
// to 2^-134.5 count, and the least number of the type is 2^-133.
constexpr int bfloat16_lift = 9;

// e^r for |r| <= (ln 2) / 2 is 1 + r * exp_slope(r); relative error 3.2e-9.
FOVEA_INLINE Float exp_slope(const Float &r) {
  Float q = multiply_add(r, splat(0x1.6a4d9ap-10f), splat(0x1.12399p-7f));
  q = multiply_add(q, r, splat(0x1.5558b0p-5f));
  q = multiply_add(q, r, splat(0x1.555492p-3f));
  q = multiply_add(q, r, splat(0x1.fffffcp-2f));
  return multiply_add(q, r, splat(1.0f));
}

// e^x over the whole range: +infinity above log(FLT_MAX), denormal results kept, 0 from below half the least of them,
// NaN stays NaN.
//
// n runs from -151 to 128, beyond a float's exponents, so that the power is multiplied in as two halves; the first
// product is exact, hence a denormal result is rounded once. AVX-512 has an instruction that does the same, for any n.
FOVEA_INLINE Float exp_register(const Float &x) {
#if defined(__AVX512F__)
  const Float biased = multiply_add(x, splat(log2_of_e), splat(round_magic));
  const Float n = biased - round_magic;
  Float r = multiply_add(n, splat(-ln_2_low), multiply_add(n, splat(-ln_2_high), x));
  r = bounded_magnitude(r, 0.4f);  // n is no rounded product where x is infinite, NaN, or far out of range
  return times_power_of_2(multiply_add(r, exp_slope(r), splat(1.0f)), n);
#else
  constexpr float magic = round_magic + 254.0f;
  const Float clamped = at_most(at_least(x, -104.5f), 89.0f);
  const Float biased = multiply_add(clamped, splat(log2_of_e), splat(magic));
  const Float n = biased - magic;
  const Float r = multiply_add(n, splat(-ln_2_low), multiply_add(n, splat(-ln_2_high), clamped));
  const Float p = multiply_add(r, exp_slope(r), splat(1.0f));
  const Int bits = bits_of(biased);  // n + 254 in the low bits, 9 zeros before them
  const Int half = bits >> 1;
  return p * exponent_from(half) * exponent_from(bits - half);
#endif
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
