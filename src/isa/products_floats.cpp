// Products with a right-hand side of float32.
#include "isa/product_loops.hpp"
#include "kernels/products/column_products.hpp"

namespace fovea {
extern const ProductLoops FOVEA_KERNELS(float_products) =
    FOVEA_ISA::product_loops<FOVEA_ISA::FloatPanel, FOVEA_ISA::ElementsInPlace<float>, FOVEA_ISA::multiply_columns>;
}
