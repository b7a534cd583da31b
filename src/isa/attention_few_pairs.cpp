// Attention of few rows on pairs of bfloat16.
#include "isa/path_kernels.hpp"
#include "kernels/scores/dot_pairs_few_rows.hpp"

namespace fovea {
extern const PathKernels FOVEA_KERNELS(few_rows) = FOVEA_ISA::few_rows_kernels<FOVEA_ISA::DotPairsFewRows>;
}
