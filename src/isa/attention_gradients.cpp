// The backward pass of attention, for every score function.
#include "isa/unit.hpp"
#include "kernels/attention/bias_gradients.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void pass_gradients(const ScoreFunction &score, const ScoreFunction &dot, const GradientTask &task) {
  if (task.part == GradientPart::bias) return run_bias(score, dot, task);
  GradientWorker(score, dot, task).run();
}

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const GradientKernels FOVEA_KERNELS(gradients) = {.run = FOVEA_ISA::pass_gradients,
                                                         .scratch_floats = FOVEA_ISA::GradientWorker::scratch_floats,
                                                         .key_floats = FOVEA_ISA::GradientWorker::key_floats};
}
