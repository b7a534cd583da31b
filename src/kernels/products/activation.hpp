// Activations, a register at a time:
//   relu       max(x, 0)
//   gelu       x (1 + erf(x / sqrt 2)) / 2
//   gelu_tanh  x (1 + tanh u) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3)
//   silu       x / (1 + e^-x)
//
// The last three are  max(x, 0) - a tail(a)  with a = |x| and a tail that falls from 1/2 at 0 to 0: nothing cancels on
// either side, and one formula serves both.
//   gelu       tail(a) = e^(-a^2 / 2) R(a)     R(a) = erfcx(a / sqrt 2) / 2, a quotient of polynomials
//   gelu_tanh  tail(a) = s / (1 + s),  s = e^(-2 u(a))
//   silu       tail(a) = s / (1 + s),  s = e^-a
// What an exponent is off by is the result's relative error, and exponents go down to -86: they are kept with the
// rounding errors of their products. A power below 2^-123.5 is 0, so no denormal is made, and a result smaller than
// 2^-117 may be 0. Largest errors met: gelu 5.5 ulp (6.2 without FMA), gelu_tanh 3.1, silu 3.0 (3.2).
#pragma once

#include "kernels/math/exp.hpp"

namespace fovea::FOVEA_ISA {
namespace {

#if !defined(__FMA__) && !defined(__aarch64__)
// The first 12 bits: products of two such halves are exact.
FOVEA_INLINE Float leading_half(const Float &value) { return float_of(bits_of(value) & Int(-0x1000)); }
#endif

// a * b - product, where product is a * b as rounded.
FOVEA_INLINE Float rest_of_product(const Float &a, const Float &b, const Float &product) {
#if defined(__FMA__) || defined(__aarch64__)
  return multiply_add(a, b, -product);
#else
  const Float a_high = leading_half(a);
  const Float b_high = leading_half(b);
  const Float a_low = a - a_high;
  const Float b_low = b - b_high;
  return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

constexpr float exponent_of_zero = -85.95f;  // -124 log 2: what exp_flushed gives 0 for

// e^(exponent + rest) for an exponent from -86.1 to 0 and a small rest, 0 from -85.6 down. With n as in math/exp.hpp
// the power is made as 2^(n-3), whose bits are 0 for n = -124.
FOVEA_INLINE Float exp_flushed(const Float &exponent, const Float &rest) {
  constexpr float magic = round_magic + 124.0f;
  const Float biased = multiply_add(exponent, splat(log2_of_e), splat(magic));
  const Float n = biased - magic;
  const Float r = multiply_add(n, splat(-ln_2_low), multiply_add(n, splat(-ln_2_high), exponent) + rest);
  const Float p = multiply_add(r * 8.0f, exp_slope(r), splat(8.0f));
  return p * exponent_from(bits_of(biased));
}

FOVEA_INLINE Float relu(const Float &x) { return at_least(x, 0.0f); }

// relu(x) - a s / (1 + s)
FOVEA_INLINE Float through_sigmoid(const Float &x, const Float &a, const Float &s) {
  return relu(x) - quotient(a * s, s + 1.0f);
}

FOVEA_INLINE Float silu(const Float &x) {
  const Float a = at_most(xsimd::abs(x), -exponent_of_zero);
  return through_sigmoid(x, a, exp_flushed(-a, zero()));
}

// The derivative of an f with f(x) - f(-x) = x, so that f'(-x) = 1 - f'(x); tail: f'(-|x|).
FOVEA_INLINE Float derivative_from_tail(const Float &x, const Float &tail) {
  return choose(x > 0.0f, splat(1.0f) - tail, tail);
}

// s / (1 + s) (1 - a slope / (1 + s)), s = e^-exponent, slope the exponent's derivative by a.
FOVEA_INLINE Float sigmoid_tail(const Float &a, const Float &s, const Float &slope) {
  const Float rest = quotient(splat(1.0f), s + 1.0f);
  return s * rest * (splat(1.0f) - a * slope * rest);
}

FOVEA_INLINE Float silu_derivative(const Float &x) {
  const Float a = at_most(xsimd::abs(x), -exponent_of_zero);
  return derivative_from_tail(x, sigmoid_tail(a, exp_flushed(-a, zero()), splat(1.0f)));
}

// 2 u(a) = a (linear + cubic a^2), each constant in two parts. `linear` has 20 bits: what the sum loses is exact then.
struct GeluTanh {
  static constexpr float linear = 0x1.98846p0f;
  static constexpr float linear_low = -0x1.985794p-21f;
  static constexpr float cubic = 0x1.2444f2p-4f;
  static constexpr float cubic_low = 0x1.49b16ap-29f;
  Float a, square, power;  // power: e^(-2 u(a))

  FOVEA_INLINE explicit GeluTanh(const Float &x) {
    a = at_most(xsimd::abs(x), 9.9405f);  // where 2 u is 124 log 2
    square = a * a;
    const Float term = square * cubic;
    const Float factor = term + linear;
    const Float exponent = a * factor;
    Float rest = multiply_add(square, splat(cubic_low), splat(linear_low));
    rest = multiply_add(rest_of_product(a, a, square), splat(cubic), rest);
    rest = rest + rest_of_product(square, splat(cubic), term) + (term - (factor - linear));
    rest = multiply_add(rest, a, rest_of_product(a, factor, exponent));
    power = exp_flushed(-exponent, -rest);
  }
};

FOVEA_INLINE Float gelu_tanh(const Float &x) {
  const GeluTanh parts(x);
  return through_sigmoid(x, parts.a, parts.power);
}

FOVEA_INLINE Float gelu_tanh_derivative(const Float &x) {
  const GeluTanh parts(x);
  const Float slope = multiply_add(parts.square, splat(3.0f * GeluTanh::cubic), splat(GeluTanh::linear));
  return derivative_from_tail(x, sigmoid_tail(parts.a, parts.power, slope));
}

// R's quotient p / q minimises the largest relative error on [0, 13.5], each coefficient in turn rounded to float and
// those after it fitted again: 1.7e-8.
struct Gelu {
  Float a, power, p, q;  // power: e^(-a^2 / 2)

  FOVEA_INLINE explicit Gelu(const Float &x) {
    a = at_most(xsimd::abs(x), 13.111f);  // where a^2 / 2 is 124 log 2
    const Float square = a * a;
    power = exp_flushed(square * -0.5f, rest_of_product(a, a, square) * -0.5f);
    p = multiply_add(a, splat(0x1.06f1aap-8f), splat(0x1.47405p-5f));
    p = multiply_add(p, a, splat(0x1.732516p-3f));
    p = multiply_add(p, a, splat(0x1.be10f6p-2f));
    p = multiply_add(p, a, splat(0.5f));
    q = multiply_add(a, splat(0x1.498bfcp-7f), splat(0x1.9a2dbp-4f));
    q = multiply_add(q, a, splat(0x1.db4a94p-2f));
    q = multiply_add(q, a, splat(0x1.31b6fcp0f));
    q = multiply_add(q, a, splat(0x1.ab4aa8p0f));
    q = multiply_add(q, a, splat(1.0f));
  }
};

FOVEA_INLINE Float gelu(const Float &x) {
  const Gelu parts(x);
  return relu(x) - quotient(parts.a * parts.power * parts.p, parts.q);
}

// The tail is e^(-a^2 / 2) (R(a) - a / sqrt(2 pi)).
FOVEA_INLINE Float gelu_derivative(const Float &x) {
  const Gelu parts(x);
  const Float height = multiply_add(parts.a, splat(-0.398942280f), quotient(parts.p, parts.q));
  return derivative_from_tail(x, parts.power * height);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
