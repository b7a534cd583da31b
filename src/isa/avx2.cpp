// The kernels for x86-64-v3: AVX2 and FMA.
#define FOVEA_ISA avx2
#define FOVEA_ARCH xsimd::fma3<xsimd::avx2>
#include "isa/table.hpp"

namespace fovea {
extern const Kernels kernels_avx2 = avx2::make_table("avx2");
}
