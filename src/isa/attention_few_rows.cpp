// Attention of few rows, for every score function.
#include "isa/path_kernels.hpp"
#include "kernels/attention/few_rows.hpp"

namespace fovea {
extern const PathKernels FOVEA_KERNELS(few_rows) = FOVEA_ISA::few_rows_kernels<FOVEA_ISA::FewRowsValues>;
}
