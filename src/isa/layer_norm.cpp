// Kernels of layer and RMS normalisation of rows, and of its gradients.
#include "isa/rowwise_units.hpp"

#include "kernels/rowwise/layer_norm.hpp"  // behind what names the instruction set
#include "kernels/rowwise/norm_gradients.hpp"

namespace fovea {
extern const NormKernels FOVEA_KERNELS(norm) = {.rows = FOVEA_ISA::norm_rows,
                                                .gradient_rows = FOVEA_ISA::norm_gradient_rows};
}
