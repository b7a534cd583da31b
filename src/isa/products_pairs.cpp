// Products of bfloat16 with bfloat16 on pairs of it. Panels are avx512's.
#include "isa/product_loops.hpp"
#include "kernels/products/pair_panel.hpp"

namespace fovea {
extern const ProductLoops FOVEA_KERNELS(few_pair_products);

extern const MatmulKernels FOVEA_KERNELS(products) = {
    .set = FOVEA_SET_NAME,
    .panel_columns = FOVEA_ISA::panel_columns,
    .block_rows = 4 * FOVEA_ISA::block_rows<FOVEA_ISA::block_vectors>,
    .panel_floats = FOVEA_ISA::matmul_panel_floats,
    .pack = [](const MatmulPack &pack) { products_avx512.pack(pack); },
    .block = [](const MatmulTask &task) { FOVEA_ISA::multiply_panels<FOVEA_ISA::PairPanel>(task); },
    .few_rows = [](const MatmulTask &task) { FOVEA_KERNELS(few_pair_products).few_rows(task); },
    .most_few_rows = FOVEA_ISA::most_few_rows,
    .reads_in_place = FOVEA_ISA::PairPanel::reads_in_place,
    .rows_words = FOVEA_ISA::rows_words,
    .copy_rows = FOVEA_ISA::copy_rows<FOVEA_ISA::PairPanel>,
    .rows_dtype = Dtype::bf16};
}  // namespace fovea
