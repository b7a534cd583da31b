// Sine and cosine of position * frequency, a register of frequencies at a time.
//
// Frequencies come in quarter turns (radians times 2 / pi), so that the reduction is a subtraction: with t = position *
// frequency in float64 and n the nearest integer, r = t - n is in [-1/2, 1/2]. n comes from adding 1.5 * 2^52, whose
// low bits then hold it. r is rounded to float, sin(r pi/2) and cos(r pi/2) are taken of it by polynomials, and the two
// lowest bits of n say which of them is which, and the signs.
//
// Error: that of the float64 angle a, 2^-52 |a|, and 7e-8 for the rounding of r, the polynomials and the result (8e-8
// without FMA). Sine of 0 is 0 and cosine of 0 is 1, exactly. The polynomials minimise the largest error, 4e-9 of a
// sine and 4e-10, each coefficient in turn rounded to float and those after it fitted again; the sine's first one, pi /
// 2, is in two parts.
#pragma once

#include "beyond_xsimd/pairs.hpp"
#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

using Double = xsimd::batch<double, Arch>;

constexpr int64_t double_lanes = static_cast<int64_t>(Double::size);
static_assert(lanes == 2 * double_lanes);

struct SinCos {
  Float sine, cosine;
};

// What is left of position * frequencies[...] in [-1/2, 1/2]; the low bits of *quadrant are the integer taken away.
FOVEA_INLINE Double reduce_turns(const Double &position, const double *frequencies, Double *quadrant) {
  constexpr double magic = 0x1.8p52;
  const Double frequency = Double::load_unaligned(frequencies);
  *quadrant = xsimd::fma(position, frequency, Double(magic));
  return xsimd::fms(position, frequency, *quadrant - Double(magic));
}

FOVEA_INLINE Float sine_of_turns(const Float &r, const Float &square) {
  Float sum = multiply_add(square, splat(-0x1.2db5a6p-8f), splat(0x1.465facp-4f));
  sum = multiply_add(square, sum, splat(-0x1.4abbbep-1f));
  sum = multiply_add(square, sum, splat(-0x1.777a5cp-25f));
  return multiply_add(r, splat(0x1.921fb6p0f), r * sum);
}

FOVEA_INLINE Float cosine_of_turns(const Float &square) {
  Float sum = multiply_add(square, splat(0x1.d47d6p-11f), splat(-0x1.55b146p-6f));
  sum = multiply_add(square, sum, splat(0x1.03c1aep-2f));
  sum = multiply_add(square, sum, splat(-0x1.3bd3ccp0f));
  return multiply_add(square, sum, splat(1.0f));
}

// Turned round where bit 1 of `quadrant` is set.
FOVEA_INLINE Float with_sign(const Float &value, const Int &quadrant) {
  return float_of(bits_of(value) ^ ((quadrant & Int(2)) << 30));
}

// Sines and cosines of frequencies[0 .. lanes - 1] times positions, given for the first half of the lanes and for the
// second.
FOVEA_INLINE SinCos sincos_of(const double *frequencies, const Double &first_positions, const Double &last_positions) {
  Double quadrant_low;
  Double quadrant_high;
  const Double low = reduce_turns(first_positions, frequencies, &quadrant_low);
  const Double high = reduce_turns(last_positions, frequencies + double_lanes, &quadrant_high);
  const Float r = narrow(low, high);
  const Int quadrant = low_words(quadrant_low, quadrant_high);
  const Float square = r * r;
  const Float sine = sine_of_turns(r, square);
  const Float cosine = cosine_of_turns(square);
  const Mask odd = xsimd::batch_bool_cast<float>((quadrant & Int(1)) != Int(0));
  return {with_sign(choose(odd, cosine, sine), quadrant), with_sign(choose(odd, sine, cosine), quadrant + Int(1))};
}

// Sines and cosines of all these frequencies times one position.
FOVEA_INLINE SinCos sincos_of(const double *frequencies, double position) {
  return sincos_of(frequencies, Double(position), Double(position));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
