// The loops that find a machine's limits of bfloat16. The tile unit's: products of tiles in registers, four independent
// sums as the kernel has. The vector unit's: products of pairs, twelve sums.
// SPDX-License-Identifier: Apache-2.0
#include "limits/kernels.hpp"

#if defined(__x86_64__)

namespace fovea_bench {

void multiply_tiles(int64_t steps) {
  struct alignas(64) {
    uint8_t palette = 1, rest[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
  for (int64_t step = 0; step < steps; ++step) {
    __asm__ volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm1\n\t"
        "tdpbf16ps %tmm7, %tmm4, %tmm2\n\t"
        "tdpbf16ps %tmm7, %tmm5, %tmm3");
  }
  __asm__ volatile("tilerelease");
}

void multiply_pairs(int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    __asm__ volatile(
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm0\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm1\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm2\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm3\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm4\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm5\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm6\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm7\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm8\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm9\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm10\n\t"
        "vdpbf16ps %%zmm13, %%zmm12, %%zmm11"
        :
        :
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11");
  }
}

}  // namespace fovea_bench

#endif
