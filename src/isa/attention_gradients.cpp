// The backward pass of attention, for every score function.
#include "isa/unit.hpp"
#include "kernels/attention/gradients.hpp"

namespace fovea {
extern const GradientKernels FOVEA_KERNELS(gradients) = {
    .run =
        [](const ScoreFunction &score, const ScoreFunction &dot, const GradientTask &task) {
          if (task.part == GradientPart::bias) return FOVEA_ISA::GradientWorker::run_bias(score, dot, task);
          FOVEA_ISA::GradientWorker(score, dot, task).run();
        },
    .scratch_floats = FOVEA_ISA::GradientWorker::scratch_floats,
    .key_floats = FOVEA_ISA::GradientWorker::key_floats};
}
