// Kernels of softmax of rows, and of its logarithm.
#include "isa/rowwise_units.hpp"

#include "kernels/rowwise/log_softmax.hpp"
#include "kernels/rowwise/softmax.hpp"  // behind what names the instruction set

namespace fovea {
extern const SoftmaxKernels FOVEA_KERNELS(softmax) = {.rows = FOVEA_ISA::softmax_rows,
                                                      .log_rows = FOVEA_ISA::log_softmax_rows};
}
