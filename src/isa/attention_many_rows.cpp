// Attention of many rows, and its backward pass, for every score function.
#include "isa/path_kernels.hpp"
#include "kernels/attention/bias_gradients.hpp"
#include "kernels/attention/many_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void pass_gradients(const ScoreFunction &score, const ScoreFunction &dot, const GradientTask &task) {
  if (task.part == GradientPart::bias) return run_bias(score, dot, task);
  GradientDriver(score, dot, task).run();
}

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const PathKernels FOVEA_KERNELS(many_rows) = FOVEA_ISA::many_rows_kernels<FOVEA_ISA::ManyRowsValues>;
extern const GradientKernels FOVEA_KERNELS(gradients) = {.run = FOVEA_ISA::pass_gradients,
                                                         .scratch_floats = FOVEA_ISA::GradientDriver::scratch_floats,
                                                         .key_floats = FOVEA_ISA::GradientDriver::key_floats};
}  // namespace fovea
