// tanh x, a register at a time, without branches: two forms are computed and the better one chosen.
//
//   |x| < 5/8:  x + x^3 P(x^2)
//   otherwise:  1 - 2 / (e^{2|x|} + 1), with the sign of x
//
// The second form loses nothing where tanh > 1/2, since its fraction is below 1/2. The denominator is rounded once:
// with 2|x| = n ln 2 + r it is (2^n + 1) + 2^n (e^r - 1), where 2^n + 1 is exact up to n = 23; beyond that the fraction
// no longer counts.
#pragma once

#include "kernels/math/exp.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// x + x^3 P(x^2); relative error of the polynomial below 5e-9 for |x| < 5/8. -0 comes out as +0.
FOVEA_INLINE Float tanh_small(const Float &x) {
  const Float z = x * x;
  Float p = multiply_add(z, splat(-0x1.750ce4p-8f), splat(0x1.51f8cep-6f));
  p = multiply_add(p, z, splat(-0x1.b835a4p-5f));
  p = multiply_add(p, z, splat(0x1.1106f6p-3f));
  p = multiply_add(p, z, splat(-0x1.555532p-2f));
  return multiply_add(p, z * x, x);
}

// 1 - 2 / (e^{2x} + 1) for x >= 0; 1 from x = 9.01 on.
FOVEA_INLINE Float tanh_large(const Float &x) {
  constexpr float magic = round_magic + 127.0f;
  const Float doubled = at_most(x + x, 18.1f);
  const Float biased = multiply_add(doubled, splat(log2_of_e), splat(magic));
  const Float n = biased - magic;
  const Float r = multiply_add(n, splat(-ln_2_low), multiply_add(n, splat(-ln_2_high), doubled));
  const Float power = exponent_from(bits_of(biased));
  const Float denominator = multiply_add(power, r * exp_slope(r), power + 1.0f);
  return 1.0f - quotient(splat(2.0f), denominator);
}

FOVEA_INLINE Float tanh_register(const Float &x) {
  const Float sign = xsimd::bitofsign(x);
  const Float magnitude = x ^ sign;
  // NaN fails the comparison and takes the polynomial, which keeps it.
  const Float value = choose(magnitude >= 0.625f, tanh_large(magnitude), tanh_small(magnitude));
  return value | sign;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
