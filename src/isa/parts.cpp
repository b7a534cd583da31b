// Products of float32 on AMX tiles, each float32 as three parts of bfloat16.
#include "isa/unit.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/products/amx_matmul.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(parts) = FOVEA_ISA::parts_kernels;
}
