// Products with a right-hand side of binary16.
#include "isa/product_loops.hpp"

namespace fovea {
extern const ProductLoops FOVEA_KERNELS(half_products) =
    FOVEA_ISA::product_loops<FOVEA_ISA::Float16Panel, FOVEA_ISA::ElementsInPlace<Float16>>;
}
