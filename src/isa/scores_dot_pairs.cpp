// Kernels of the dot product's scores, on pairs of bfloat16.
#include "isa/score_kernels.hpp"
#include "kernels/scores/dot_pairs.hpp"
#include "kernels/scores/dot_pairs_few_rows.hpp"

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) =
    FOVEA_ISA::attention_kernels<FOVEA_ISA::DotPairs, FOVEA_ISA::DotPairsFewRows>();

// The dot products of many rows that the Gaussian starts from.
extern const ScoreFunction FOVEA_KERNELS(dot_products) = FOVEA_ISA::score_function<FOVEA_ISA::DotPairs>;
}  // namespace fovea
