// Kernels of Gaussian scores.
#include "isa/score_kernels.hpp"
#include "kernels/scores/gaussian.hpp"

namespace fovea {
extern const ScoreFunction FOVEA_KERNELS(dot_products);
}

namespace fovea::FOVEA_ISA {
namespace {

const ScoreFunction &dot_products() { return FOVEA_KERNELS(dot_products); }

constexpr AttentionKernels gaussian_kernels() {
  AttentionKernels kernels = attention_kernels<GaussianManyRows, GaussianFewRows>();
  kernels.squared_norms = squared_norms;
  return kernels;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(gaussian) = FOVEA_ISA::gaussian_kernels();
}
