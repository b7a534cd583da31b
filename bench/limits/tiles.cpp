// The tile unit's limit: products of bfloat16 tiles in registers, four independent sums as the kernel has.
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

}  // namespace fovea_bench

#endif
