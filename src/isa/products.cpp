// Matrix products: panels are packed and sums finished here; the loops are in other units, called through their
// structs.
#include "isa/product_units.hpp"
#include "kernels/products/finish.hpp"

namespace fovea::FOVEA_ISA {
namespace {

const ProductLoops &loops_of(Dtype dtype) {
  switch (dtype) {
#if FOVEA_HAS_BF16
    case Dtype::bf16: return FOVEA_KERNELS(bfloat_products);
#endif
#if FOVEA_HAS_F16
    case Dtype::f16: return FOVEA_KERNELS(half_products);
#endif
    default: return FOVEA_KERNELS(float_products);
  }
}

constexpr MatmulKernels matmul_kernels = {
    .set = FOVEA_SET_NAME,
    .panel_columns = panel_columns,
    .block_rows = 4 * block_rows<block_vectors>,
    .panel_floats = matmul_panel_floats,
    .pack = matmul_pack,
    .pack_rows = pack_float_rows,
    .block = [](const MatmulTask &task) { loops_of(task.b_dtype).block(task); },
    .few_rows = [](const MatmulTask &task) { loops_of(task.b_dtype).few_rows(task); },
    .most_few_rows = most_few_rows,
    .columns = [](const MatmulTask &task) { FOVEA_KERNELS(float_products).columns(task); },
    .reads_in_place = FloatRows::reads_in_place,
    .rows_words = rows_words,
    .copy_rows = copy_float_rows};

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const FinishKernels FOVEA_KERNELS(finish) = {.sums = FOVEA_ISA::finish_sums};
extern const MatmulKernels FOVEA_KERNELS(products) = FOVEA_ISA::matmul_kernels;
}  // namespace fovea
