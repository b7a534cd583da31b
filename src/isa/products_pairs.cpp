// Products of bfloat16 with bfloat16 on pairs of it.
#include "isa/unit.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/products/pair_panel.hpp"

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::pairs_kernels;
}
