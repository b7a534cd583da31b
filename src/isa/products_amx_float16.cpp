// Products with a right-hand side of binary16, for processors that have AMX tiles of it (AMX-FP16).
#include "isa/product_loops.hpp"
#include "kernels/products/amx_narrow.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::float16_tiles_kernels;
}
