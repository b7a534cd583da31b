// Products of few rows of bfloat16 with bfloat16 on pairs of it.
#include "isa/product_loops.hpp"
#include "kernels/products/pair_panel.hpp"

namespace fovea {
extern const ProductLoops FOVEA_KERNELS(few_pair_products) = {
    .block = nullptr,
    .few_rows = [](const MatmulTask &task) { FOVEA_ISA::multiply_few_rows<FOVEA_ISA::PairsInPlace>(task); }};
}
