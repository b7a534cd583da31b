// Kernels of Gaussian scores, on pairs of bfloat16. Few rows are bound by memory, which leaves time to widen them.
#include "isa/score_kernels.hpp"
#include "kernels/scores/gaussian_pairs.hpp"

namespace fovea {
extern const ScoreFunction FOVEA_KERNELS(dot_products);
}

namespace fovea::FOVEA_ISA {
namespace {

const ScoreFunction &dot_products() { return FOVEA_KERNELS(dot_products); }

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(gaussian) = FOVEA_ISA::attention_kernels<FOVEA_ISA::GaussianPairs, void>();
}
