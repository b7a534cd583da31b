// Attention of many rows, for every score function.
#include "isa/path_kernels.hpp"
#include "kernels/attention/many_rows.hpp"

namespace fovea {
extern const PathKernels FOVEA_KERNELS(many_rows) = FOVEA_ISA::many_rows_kernels<FOVEA_ISA::ManyRowsValues>;
}
