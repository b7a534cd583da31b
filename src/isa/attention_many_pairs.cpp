// Attention of many rows on pairs of bfloat16.
#include "isa/path_kernels.hpp"
#include "kernels/scores/dot_pairs.hpp"

namespace fovea {
extern const PathKernels FOVEA_KERNELS(many_rows) = FOVEA_ISA::many_rows_kernels<FOVEA_ISA::PairValues>;
}
