// Softmax over an axis that is not the last.
#include "kernels/rowwise/softmax_columns.hpp"
#include "isa/rowwise_units.hpp"

namespace fovea {
extern const ColumnKernels FOVEA_KERNELS(columns) = {.softmax = FOVEA_ISA::softmax_columns};
}
