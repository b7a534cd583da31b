// Products of few rows of bfloat16 with bfloat16 on pairs of it.
#include "isa/product_loops.hpp"
#include "kernels/products/pair_panel.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void few_pairs(const MatmulTask &task) { multiply_few_rows<PairsInPlace>(task); }

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const ProductLoops FOVEA_KERNELS(few_pair_products) = {.block = nullptr, .few_rows = FOVEA_ISA::few_pairs};
}
