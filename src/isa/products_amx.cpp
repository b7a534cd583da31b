// Products of bfloat16 with bfloat16 on AMX's tiles.
#include "isa/product_loops.hpp"
#include "kernels/products/amx_narrow.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::bfloat16_tiles_kernels;
}
