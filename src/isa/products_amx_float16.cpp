// Products with a right-hand side of binary16 where AMX-FP16 has tiles of it.
#include "isa/product_loops.hpp"
#include "kernels/products/amx_narrow.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::float16_tiles_kernels;
}
