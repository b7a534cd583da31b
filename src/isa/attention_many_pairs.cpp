// Attention of many rows on pairs of bfloat16, and its backward pass.
#include "isa/path_kernels.hpp"
#include "kernels/attention/bias_gradients.hpp"
#include "kernels/scores/dot_pairs.hpp"

namespace fovea {
extern const PathKernels FOVEA_KERNELS(many_rows) = FOVEA_ISA::many_rows_kernels<FOVEA_ISA::PairValues>;
extern const GradientKernels FOVEA_KERNELS(gradients) = FOVEA_ISA::gradient_kernels<FOVEA_ISA::PairValues>;
}  // namespace fovea
