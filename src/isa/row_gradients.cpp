// Kernels of the backward passes of operations on elements and rows.
#include "isa/rowwise_units.hpp"
#include "kernels/rowwise/activation_gradients.hpp"
#include "kernels/rowwise/add_row.hpp"
#include "kernels/rowwise/merge_gradients.hpp"
#include "kernels/rowwise/softmax_gradients.hpp"

namespace fovea {
extern const RowGradientKernels FOVEA_KERNELS(row_gradients) = {
    .activation = FOVEA_ISA::activation_gradients,
    .softmax_rows = FOVEA_ISA::softmax_gradient_rows,
    .softmax_columns = FOVEA_ISA::softmax_gradient_columns_of,
    .merge_row = FOVEA_ISA::merge_gradient_row,
    .add_row = FOVEA_ISA::add_row_to_sums};
}
