// Products on AMX tiles, of float32 as three parts of bfloat16.
#include "isa/unit.hpp"
#include "kernels/matmul_parts.hpp"
#include "kernels/table.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(parts) = FOVEA_ISA::parts_kernels;
}
