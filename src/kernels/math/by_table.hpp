// e^x and tanh x for whole tensors: what exp_register and tanh_register are, in fewer instructions where AVX-512 looks
// up tables of 16 numbers in one. Other instruction sets take those two.
//
// e^x: x = n ln 2 + r with n a multiple of 1/16, so that |r| <= (ln 2) / 32 and e^r needs a polynomial of degree 3; 2^n
// is 2^(its 16ths), from the table, times a power of two, one instruction that also makes infinities and denormal
// results. The sum that rounds n has its 16ths in its lowest bits. 11 instructions, error 1.06 ulp.
//
// tanh x: 16 intervals of |x| that grow with it, quarters of the octaves of 1 + 1.64 |x|, each with a polynomial of
// degree 5 around a centre where tanh is all but exactly a float, so that its first coefficient costs nothing. The
// first interval's is x + ..., without an error of its own near 0. From 9.1 on tanh is 1. 18 instructions and no
// division, error 1.06 ulp. The polynomials minimise the largest relative error, coefficients in turn rounded to float
// and those after them fitted again.
#pragma once

#include "kernels/math/exp.hpp"
#include "kernels/math/tanh.hpp"

#if defined(__AVX512F__)
#include "beyond_xsimd/tables_avx512.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// 2^(j / 16)
alignas(64) constexpr float powers_of_16ths[16] = {0x1p+0f,        0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f,
                                                   0x1.306fep+0f,  0x1.3dea64p+0f, 0x1.4bfdaep+0f, 0x1.5ab07ep+0f,
                                                   0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f,
                                                   0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f};

FOVEA_INLINE Float exp_by_table(const Float &x) {
  constexpr float magic = 0x1.8p19f;  // a sum with it has no bits below 1/16
  const Float sum = multiply_add(x, splat(log2_of_e), splat(magic));
  const Float n = sum - magic;
  const Float power = pick_of_16(_mm512_castps_si512(sum), powers_of_16ths);
  Float r = multiply_add(n, splat(-ln_2_low), multiply_add(n, splat(-ln_2_high), x));
  r = bounded_magnitude(r, 0.03f);  // n is no rounded product where x is infinite, NaN, or far out of range
  Float slope = multiply_add(r, splat(0x1.555556p-3f), splat(0.5f));
  slope = multiply_add(slope, r, splat(1.0f));
  return times_power_of_2(multiply_add(power, slope * r, power), n);
}

alignas(64) constexpr float tanh_centres[16] = {0x1.86432ep-1f, 0x1.1126bap0f,  0x1.5f347p0f,   0x1.ad44aep0f,
                                                0x1.112bb8p1f,  0x1.5f383p1f,   0x1.ad44d8p1f,  0x1.fb51b6p1f,
                                                0x1.38322p2f,   0x1.862c0ap2f,  0x1.d3dc32p2f,  0x1.154246p3f,
                                                0.0f,           0x1.d44e6cp-3f, 0x1.8641c2p-2f, 0x1.112aa6p-1f};
alignas(64) constexpr float tanh_c0[16] = {0x1.48e742p-1f, 0x1.939fap-1f,  0x1.c21c6cp-1f, 0x1.dd69fp-1f,
                                           0x1.f1db36p-1f, 0x1.fbc8p-1f,   0x1.fec012p-1f, 0x1.ffa16cp-1f,
                                           0x1.fff0dp-1f,  0x1.fffeacp-1f, 0x1.ffffe2p-1f, 0x1.fffffep-1f,
                                           0.0f,           0x1.cc4fbp-3f,  0x1.74663cp-2f, 0x1.f3c996p-2f};
alignas(64) constexpr float tanh_c1[16] = {0x1.2cb74cp-1f, 0x1.83a00ap-2f, 0x1.d1302p-3f,   0x1.0b5816p-3f,
                                           0x1.be58d8p-5f, 0x1.0ce34cp-6f, 0x1.3f8a24p-8f,  0x1.7a2d3p-10f,
                                           0x1.e604cp-13f, 0x1.54077p-16f, 0x1.e00718p-20f, 0x1.003408p-23f,
                                           0x1p0f,         0x1.e6228cp-1f, 0x1.bc48d8p-1f,  0x1.86089p-1f};
alignas(64) constexpr float tanh_c2[16] = {-0x1.825a84p-2f,  -0x1.31947ap-2f,  -0x1.98f676p-3f,  -0x1.f2927ep-4f,
                                           -0x1.b2007cp-5f,  -0x1.0aa3b4p-6f,  -0x1.3eb5a2p-8f,  -0x1.79d744p-10f,
                                           -0x1.e49564p-13f, -0x1.530f84p-16f, -0x1.deaec4p-20f, -0x1.00159p-23f,
                                           0x1.bfe7dcp-21f,  -0x1.b50e4ap-3f,  -0x1.432572p-2f,  -0x1.7cbac8p-2f};
alignas(64) constexpr float tanh_c3[16] = {0x1.7d9d38p-5f,  0x1.bec05cp-4f,  0x1.98f072p-4f,  0x1.1eab98p-4f,
                                           0x1.114454p-5f,  0x1.5da872p-7f,  0x1.a6df38p-9f,  0x1.f70ee6p-11f,
                                           0x1.42eeb2p-13f, 0x1.c41328p-17f, 0x1.3f62c2p-20f, 0x1.4dc2d4p-24f,
                                           -0x1.55622ap-2f, -0x1.12f936p-2f, -0x1.655e7cp-3f, -0x1.28c7ecp-4f};
alignas(64) constexpr float tanh_c4[16] = {0x1.889a6p-4f,    0x1.ce4e3ep-7f,   -0x1.55943ep-6f,  -0x1.92cd18p-6f,
                                           -0x1.e66af8p-7f,  -0x1.56afe4p-8f,  -0x1.a9a6c6p-10f, -0x1.fe45bcp-12f,
                                           -0x1.5aa84ap-14f, -0x1.e58018p-18f, -0x1.56b2ccp-21f, -0x1.59f208p-25f,
                                           0x1.be7b96p-11f,  0x1.0c433cp-3f,   0x1.585a9cp-3f,   0x1.45957ap-3f};
alignas(64) constexpr float tanh_c5[16] = {-0x1.02d766p-4f, -0x1.3d0216p-5f, -0x1.428f86p-7f, 0x1.41e6dap-9f,
                                           0x1.20b428p-8f,  0x1.fd3ab4p-10f, 0x1.4d6892p-11f, 0x1.95a4cep-13f,
                                           0x1.14bfcap-15f, 0x1.831cbp-19f,  0x1.0e3d5ep-22f, 0x1.88a5ccp-26f,
                                           0x1.06edc8p-3f,  0x1.4cd84ap-4f,  0x1.2416ep-6f,   -0x1.2c4562p-5f};

FOVEA_INLINE Float tanh_by_table(const Float &x) {
  const Float magnitude = at_most(xsimd::abs(x), 9.1f);
  const Float octaves = multiply_add(magnitude, splat(1.64f), splat(1.0f));
  const __m512i interval = _mm512_srli_epi32(_mm512_castps_si512(octaves), 21);
  const Float y = magnitude - Float(pick_of_16(interval, tanh_centres));
  Float value = multiply_add(pick_of_16(interval, tanh_c5), y, pick_of_16(interval, tanh_c4));
  value = multiply_add(value, y, pick_of_16(interval, tanh_c3));
  value = multiply_add(value, y, pick_of_16(interval, tanh_c2));
  value = multiply_add(value, y, pick_of_16(interval, tanh_c1));
  value = multiply_add(value, y, pick_of_16(interval, tanh_c0));
  return with_sign_of(value, x);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
#else

namespace fovea::FOVEA_ISA {
namespace {

FOVEA_INLINE Float exp_by_table(const Float &x) { return exp_register(x); }
FOVEA_INLINE Float tanh_by_table(const Float &x) { return tanh_register(x); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
#endif
