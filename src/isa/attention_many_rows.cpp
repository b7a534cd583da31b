// Attention of many rows, and its backward pass, for every score function.
#include "isa/path_kernels.hpp"
#include "kernels/attention/bias_gradients.hpp"
#include "kernels/attention/many_rows.hpp"

namespace fovea {
extern const PathKernels FOVEA_KERNELS(many_rows) = FOVEA_ISA::many_rows_kernels<FOVEA_ISA::ManyRowsValues>;
extern const GradientKernels FOVEA_KERNELS(gradients) = FOVEA_ISA::gradient_kernels<FOVEA_ISA::ManyRowsValues>;
}  // namespace fovea
