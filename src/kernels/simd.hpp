// The vocabulary of the kernels: register types, loops unrolled at compile time, partial loads and stores, 16 x 16
// (lanes x lanes) transposes. What differs between xsimd versions or is missing there is kept here.
#pragma once

#include <stdint.h>
#include <string.h>

#include <xsimd/xsimd.hpp>

#include "types.hpp"

#if defined(__x86_64__)
#include "beyond_xsimd/partial.hpp"
#endif

#define FOVEA_INLINE inline __attribute__((always_inline))

// A hot loop of its own: the compiler allocates registers for it alone.
#define FOVEA_NOINLINE __attribute__((noinline))

// After a lambda's parameters: the compiler must not leave a loop body as a call with registers spilled around it.
#define FOVEA_INLINE_BODY __attribute__((always_inline))

namespace fovea::FOVEA_ISA {
namespace {

using Arch = FOVEA_ARCH;
using Float = xsimd::batch<float, Arch>;
using Int = xsimd::batch<int32_t, Arch>;
using Mask = xsimd::batch_bool<float, Arch>;

constexpr int64_t lanes = static_cast<int64_t>(Float::size);

// The same bits as whole numbers, and back. On AArch64 xsimd looks a cast up in a tuple of functions, which takes a
// compiler minutes in units of many register blocks.
FOVEA_INLINE Int bits_of(const Float &value) {
#if defined(__aarch64__)
  return Int(vreinterpretq_s32_f32(value.data));
#else
  return xsimd::bitwise_cast<int32_t>(value);
#endif
}
FOVEA_INLINE Float float_of(const Int &bits) {
#if defined(__aarch64__)
  return Float(vreinterpretq_f32_s32(bits.data));
#else
  return xsimd::bitwise_cast<float>(bits);
#endif
}

// Vector registers: 32, or 16 before AVX-512.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr bool has_32_registers = true;
#else
constexpr bool has_32_registers = false;
#endif

// A compile-time index: arrays of registers stay in registers only if every index into them is a constant.
template <int value_>
struct Index {
  static constexpr int value = value_;
  constexpr operator int() const { return value_; }  // NOLINT(google-explicit-constructor): is meant as a number
};

template <int... indices>
struct IndexList {};

template <int count, int... indices>
struct MakeIndexList : MakeIndexList<count - 1, count - 1, indices...> {};
template <int... indices>
struct MakeIndexList<0, indices...> {
  using Type = IndexList<indices...>;
};

template <class Body, int... indices>
FOVEA_INLINE void unroll_list(IndexList<indices...>, const Body &body) {
  (body(Index<indices>{}), ...);
}

// body(Index<0>), ..., body(Index<count - 1>), with no loop left.
template <int count, class Body>
FOVEA_INLINE void unroll(const Body &body) {
  unroll_list(typename MakeIndexList<count>::Type{}, body);
}

FOVEA_INLINE Float load(const float *from) { return Float::load_unaligned(from); }
FOVEA_INLINE void store(float *to, const Float &value) { value.store_unaligned(to); }
FOVEA_INLINE Float splat(float value) { return Float(value); }
FOVEA_INLINE Float zero() { return Float(0.0f); }

// a * b + c
FOVEA_INLINE Float multiply_add(const Float &a, const Float &b, const Float &c) { return xsimd::fma(a, b, c); }

// a / b, rounded correctly: xsimd 13 refines an estimate on NEON, which cost tanh there a third of an ulp.
FOVEA_INLINE Float quotient(const Float &a, const Float &b) {
#if defined(__aarch64__)
  return Float(vdivq_f32(a, b));
#else
  return a / b;
#endif
}

// The larger; which of the two when one is NaN is not specified.
FOVEA_INLINE Float larger(const Float &a, const Float &b) { return xsimd::max(a, b); }
FOVEA_INLINE Float smaller(const Float &a, const Float &b) { return xsimd::min(a, b); }

// A bound on value that lets NaN through. Where one operand is NaN, x86's instructions give the second operand, NEON
// gives NaN, and xsimd 14 turned the operands around.
FOVEA_INLINE Float at_least(const Float &value, float bound) {
#if XSIMD_VERSION_MAJOR >= 14
  return xsimd::max(value, Float(bound));
#else
  return xsimd::max(Float(bound), value);
#endif
}
FOVEA_INLINE Float at_most(const Float &value, float bound) {
#if XSIMD_VERSION_MAJOR >= 14
  return xsimd::min(value, Float(bound));
#else
  return xsimd::min(Float(bound), value);
#endif
}

// Lanes below count: all ones; the others 0.
FOVEA_INLINE Mask lanes_below(int64_t count) {
  alignas(64) constexpr float index[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Float::load_aligned(index) < splat(static_cast<float>(count));
}

FOVEA_INLINE Float choose(const Mask &mask, const Float &if_true, const Float &if_false) {
  return xsimd::select(mask, if_true, if_false);
}

// The first count elements, 0 to lanes of them, the others 0; nothing past them is read.
FOVEA_INLINE Float load_partial(const float *from, int64_t count) {
#if defined(__x86_64__)
  return load_first_lanes(from, count);
#else
  alignas(16) float buffer[lanes] = {};
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
    if (i < count) buffer[i] = from[i];
  });
  return Float::load_aligned(buffer);
#endif
}

FOVEA_INLINE void store_partial(float *to, const Float &value, int64_t count) {
#if defined(__x86_64__)
  store_first_lanes(to, value, count);
#else
  alignas(16) float buffer[lanes];
  value.store_aligned(buffer);
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
    if (i < count) to[i] = buffer[i];
  });
#endif
}

FOVEA_INLINE float horizontal_sum(const Float &value) { return xsimd::reduce_add(value); }
FOVEA_INLINE float horizontal_max(const Float &value) { return xsimd::reduce_max(value); }
FOVEA_INLINE float horizontal_min(const Float &value) { return xsimd::reduce_min(value); }

}  // namespace
}  // namespace fovea::FOVEA_ISA
