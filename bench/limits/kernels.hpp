// The loops that find a machine's limits, compiled once per instruction set (see kernels.cpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fovea_bench {

struct LimitKernels {
  int lanes;                  // float32 values per vector
  int accumulators;           // independent multiply-add chains per step
  int instructions_per_step;  // one per chain with fused multiply-add, two without
  // Runs `steps` steps of every chain, x = x * multiplier + addend, and returns the sum of the chains.
  float (*multiply_add)(int64_t steps, float multiplier, float addend);
  // Reads count floats, a multiple of 256, as four streams side by side; returns their sum.
  float (*read)(const float *data, size_t count);
};

extern const LimitKernels limits_base;
#if defined(__x86_64__)
extern const LimitKernels limits_avx2;
extern const LimitKernels limits_avx512;

// Four products of 16 x 32 by 32 x 16 bfloat16 a step. Only where AMX is and a context of it has been made.
void multiply_tiles(int64_t steps);
constexpr double tile_product_flops = 2.0 * 16 * 16 * 32;

// Twelve products of a register of pairs a step. Only where AVX-512-BF16 is.
void multiply_pairs(int64_t steps);
constexpr double pair_step_flops = 12 * 2.0 * 32;
#endif

}  // namespace fovea_bench
