// Kernels of layer and RMS normalisation of rows.
#include "isa/rowwise_units.hpp"
#include "kernels/rowwise/layer_norm_widened.hpp"

namespace fovea {
extern const NormKernels FOVEA_KERNELS(norm) = {.rows = FOVEA_ISA::norm_rows};
}
