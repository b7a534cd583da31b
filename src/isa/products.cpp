// Matrix products.
#include "isa/unit.hpp"
#include "kernels/matmul.hpp"
#include "kernels/table.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::matmul_kernels;
}
