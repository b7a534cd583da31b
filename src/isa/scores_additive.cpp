// Kernels of the additive score, on projected queries and keys.
#include "isa/score_kernels.hpp"
#include "kernels/scores/additive_few_rows.hpp"
#include "kernels/scores/additive_many_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr AttentionKernels additive_kernels() {
  AttentionKernels kernels = attention_kernels<AdditiveManyRows, AdditiveFewRows>();
  kernels.finish_units = finish_units;
  return kernels;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(additive) = FOVEA_ISA::additive_kernels();
}
