// The kernels every machine of the architecture can run: SSE2 on x86-64, NEON on AArch64.
#define FOVEA_ISA base
#if defined(__aarch64__)
#define FOVEA_ARCH xsimd::neon64
#else
#define FOVEA_ARCH xsimd::sse2
#endif
#include "isa/table.hpp"

namespace fovea {
extern const Kernels kernels_base = base::make_table("base");
}
