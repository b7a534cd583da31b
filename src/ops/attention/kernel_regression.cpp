#include "ops/attention/kernel_regression.hpp"

#include "ops/attention/attention.hpp"
#include "ops/attention/regression_check.hpp"

namespace fovea {

Status kernel_regression(const fovea_context *context, const RegressionTensors &tensors,
                         const fovea_kernel_regression_options *given) {
  fovea_kernel_regression_options options;
  FOVEA_CHECK(check_regression_options(given, &options));
  RegressionMatrices matrices;
  const TensorArgument weights(options.weights);
  FOVEA_CHECK(check_regression(tensors, weights, &matrices));
  fovea_score score = {};
  score.struct_size = sizeof score;
  score.kind = FOVEA_SCORE_GAUSSIAN;
  score.sigma = options.sigma;
  fovea_attention_options attention = {};
  attention.struct_size = sizeof attention;
  attention.flags = options.flags & FOVEA_LEAVE_ONE_OUT;
  attention.weights = weights;
  return attend(context, {.score = &score,
                          .query = &matrices.queries,
                          .key = &matrices.inputs,
                          .prepared = nullptr,
                          .value = &matrices.targets,
                          .out = &matrices.out,
                          .options = &attention});
}

}  // namespace fovea
