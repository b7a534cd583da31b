// Products of bfloat16 with bfloat16 on pairs of it. Panels are avx512's.
#include "isa/product_loops.hpp"
#include "kernels/products/pair_panel.hpp"
#include "kernels/products/plain.hpp"

namespace fovea {
extern const ProductLoops FOVEA_KERNELS(few_pair_products);
}

namespace fovea::FOVEA_ISA {
namespace {

constexpr MatmulKernels pairs_kernels = {
    .set = FOVEA_SET_NAME,
    .panel_columns = panel_columns,
    .block_rows = 4 * block_rows<block_vectors>,
    .panel_floats = matmul_panel_floats,
    .pack = [](const MatmulPack &pack) { products_avx512.pack(pack); },
    .block = [](const MatmulTask &task) { multiply_panels<PairPanel>(task); },
    .few_rows = [](const MatmulTask &task) { FOVEA_KERNELS(few_pair_products).few_rows(task); },
    .most_few_rows = most_few_rows,
    .reads_in_place = PairPanel::reads_in_place,
    .rows_words = rows_words,
    .copy_rows = copy_rows<PairPanel>,
    .rows_dtype = Dtype::bf16};

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::pairs_kernels;
}
