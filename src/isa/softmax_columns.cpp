// Kernels of softmax over an axis that is not the last.
#include "isa/rowwise_units.hpp"

#include "kernels/rowwise/softmax_columns.hpp"  // behind what names the instruction set

namespace fovea {
extern const ColumnKernels FOVEA_KERNELS(columns) = {.softmax = FOVEA_ISA::softmax_columns};
}
