// The kernels for x86-64-v4: AVX-512 F, BW, CD, DQ and VL.
#define FOVEA_ISA avx512
#define FOVEA_ARCH xsimd::avx512bw
#include "isa/table.hpp"

namespace fovea {
extern const Kernels kernels_avx512 = avx512::make_table("avx512");
}
