// Kernels of the dot product's scores.
#include "isa/score_kernels.hpp"
#include "kernels/scores/dot.hpp"

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) =
    FOVEA_ISA::attention_kernels<FOVEA_ISA::DotManyRows, FOVEA_ISA::DotFewRows>();

// The dot products of many rows that the Gaussian starts from.
extern const ScoreFunction FOVEA_KERNELS(dot_products) = FOVEA_ISA::score_function<FOVEA_ISA::DotManyRows>;
}  // namespace fovea
