// What AMX tiles of bfloat16 do better than AVX-512. All other kernels of the set are avx512's: runtime/dispatch.cpp.
#define FOVEA_ISA amx
#define FOVEA_ARCH xsimd::avx512bw
#include "kernels/matmul_parts.hpp"

namespace fovea {
extern const MatmulKernels projection_kernels_amx = amx::parts_kernels;
}
