// Products with a right-hand side of bfloat16.
#include "isa/product_loops.hpp"

namespace fovea {
extern const ProductLoops FOVEA_KERNELS(bfloat_products) =
    FOVEA_ISA::product_loops<FOVEA_ISA::Bfloat16Panel, FOVEA_ISA::ElementsInPlace<Bfloat16>>;
}
