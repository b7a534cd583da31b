// Multiply-add and read loops for one instruction set, FOVEA_BENCH_ISA, which the build sets together with its compiler
// flags. The vector type follows from those flags, so the source is written once.
//
// Multiply-add: with a latency of 4 cycles on two ports (8 for SSE2's multiply and then add, on up to three) 8 to 12
// chains fill the machine; 12 still fit 16 registers next to the two constants. -ffp-contract=fast makes each step one
// fused instruction where the set has it.
// Read: one stream per core is bound by the hardware prefetcher; four streams read 10 to 30 % faster from L3 and
// memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "limits/kernels.hpp"

namespace fovea_bench {
namespace {

#if defined(__AVX512F__)
constexpr size_t vector_bytes = 64;
#elif defined(__AVX2__)
constexpr size_t vector_bytes = 32;
#else
constexpr size_t vector_bytes = 16;
#endif
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr int instructions_per_multiply_add = 1;
#else
constexpr int instructions_per_multiply_add = 2;
#endif

typedef float Vector __attribute__((vector_size(vector_bytes)));
typedef float UnalignedVector __attribute__((vector_size(vector_bytes), aligned(4)));
constexpr int lanes = vector_bytes / sizeof(float);
constexpr int chains = 12;

float sum_lanes(Vector vector) {
  float sum = 0;
  for (int i = 0; i < lanes; ++i) sum += vector[i];
  return sum;
}

// Named variables, not an array: they must stay in registers.
float multiply_add(int64_t steps, float multiplier, float addend) {
  const Vector m = Vector{} + multiplier, a = Vector{} + addend;
  Vector x0 = a, x1 = a + 1, x2 = a + 2, x3 = a + 3, x4 = a + 4, x5 = a + 5;
  Vector x6 = a + 6, x7 = a + 7, x8 = a + 8, x9 = a + 9, x10 = a + 10, x11 = a + 11;
  for (int64_t step = 0; step < steps; ++step) {
    x0 = x0 * m + a;
    x1 = x1 * m + a;
    x2 = x2 * m + a;
    x3 = x3 * m + a;
    x4 = x4 * m + a;
    x5 = x5 * m + a;
    x6 = x6 * m + a;
    x7 = x7 * m + a;
    x8 = x8 * m + a;
    x9 = x9 * m + a;
    x10 = x10 * m + a;
    x11 = x11 * m + a;
  }
  return sum_lanes(((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7)) + ((x8 + x9) + (x10 + x11)));
}

Vector load(const float *from) { return *reinterpret_cast<const UnalignedVector *>(from); }

float read(const float *data, size_t count) {
  const size_t quarter = count / 4;
  Vector s0{}, s1{}, s2{}, s3{};
  for (size_t i = 0; i < quarter; i += lanes) {
    s0 += load(data + i);
    s1 += load(data + quarter + i);
    s2 += load(data + 2 * quarter + i);
    s3 += load(data + 3 * quarter + i);
  }
  return sum_lanes((s0 + s1) + (s2 + s3));
}

}  // namespace

const LimitKernels FOVEA_BENCH_ISA = {lanes, chains, chains *instructions_per_multiply_add, multiply_add, read};

}  // namespace fovea_bench
