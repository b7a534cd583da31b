// Matrix products.
#include "isa/unit.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/products/few_rows.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::matmul_kernels;
}
