#include "ops/kernel_regression.hpp"

#include <cmath>

#include "ops/attention.hpp"
#include "ops/check.hpp"

namespace fovea {
namespace {

// A vector as a matrix of one column.
fovea_tensor as_matrix(const fovea_tensor &tensor) {
  fovea_tensor matrix = tensor;
  if (tensor.rank == 2) return matrix;
  matrix.rank = 2;
  matrix.shape[1] = matrix.strides[1] = 1;
  return matrix;
}

Status check_rank(const fovea_tensor *tensor, const char *name, bool output, int rank) {
  const bool any = rank == 0;
  return check_tensor(tensor, {.name = name,
                               .min_rank = any ? 1 : rank,
                               .max_rank = any ? 2 : rank,
                               .output = output,
                               .contiguous_last = tensor != nullptr && tensor->rank == 2});
}

struct Matrices {
  fovea_tensor queries, inputs, targets, out;
};

Status check_matrices(const RegressionTensors &given, Matrices *matrices) {
  if (const Status status = check_rank(given.queries, "queries", false, 0); status != FOVEA_OK) return status;
  if (const Status status = check_rank(given.inputs, "inputs", false, given.queries->rank); status != FOVEA_OK) {
    return status;
  }
  if (const Status status = check_rank(given.targets, "targets", false, 0); status != FOVEA_OK) return status;
  if (const Status status = check_rank(given.out, "out", true, given.targets->rank); status != FOVEA_OK) return status;
  *matrices = {as_matrix(*given.queries), as_matrix(*given.inputs), as_matrix(*given.targets), as_matrix(*given.out)};
  const struct {
    const fovea_tensor &tensor;
    const char *name;
    int axis;
    int64_t expected;
    const char *why;
  } sizes[] = {{matrices->inputs, "inputs", 1, matrices->queries.shape[1], "queries' columns"},
               {matrices->targets, "targets", 0, matrices->inputs.shape[0], "inputs' rows"},
               {matrices->out, "out", 0, matrices->queries.shape[0], "queries' rows"},
               {matrices->out, "out", 1, matrices->targets.shape[1], "targets' columns"}};
  for (const auto &size : sizes) {
    const Status status = check_size(size.tensor, size.name, size.axis, size.expected, size.why);
    if (status != FOVEA_OK) return status;
  }
  if (const Status status = expect_size_in("queries", "columns", matrices->queries.shape[1], 1, largest_head_dim);
      status != FOVEA_OK) {
    return status;
  }
  return expect_size_in("targets", "columns", matrices->targets.shape[1], 1, largest_head_dim);
}

Status check_regression_overlaps(const RegressionTensors &tensors, const fovea_tensor *weights) {
  if (weights != nullptr) {
    const TensorRule rule = {.name = "weights", .min_rank = 2, .max_rank = 2, .output = true};
    if (const Status status = check_tensor(weights, rule); status != FOVEA_OK) return status;
  }
  return check_overlaps({{"out", tensors.out}, {"weights", weights}},
                        {{"queries", tensors.queries}, {"inputs", tensors.inputs}, {"targets", tensors.targets}});
}

}  // namespace

Status kernel_regression(const fovea_context *context, const RegressionTensors &tensors,
                         const fovea_kernel_regression_options *given) {
  fovea_kernel_regression_options options;
  if (const Status status = read_options("options", given, &options); status != FOVEA_OK) return status;
  if ((options.flags & ~static_cast<uint32_t>(FOVEA_LEAVE_ONE_OUT)) != 0) {
    return fail(FOVEA_BAD_OPTION, "options.flags is 0x%x, expected no bits but 0x%x", options.flags,
                FOVEA_LEAVE_ONE_OUT);
  }
  const float sigma = options.sigma == 0.0f ? 1.0f : options.sigma;
  if (!std::isfinite(sigma) || sigma < 0.0f) {
    return fail(FOVEA_BAD_VALUE, "options.sigma is %g, expected a finite number above 0, or 0 for 1",
                static_cast<double>(options.sigma));
  }
  Matrices matrices;
  if (const Status status = check_matrices(tensors, &matrices); status != FOVEA_OK) return status;
  if (const Status status = check_regression_overlaps(tensors, options.weights); status != FOVEA_OK) return status;
  fovea_score score = {};
  score.struct_size = sizeof score;
  score.kind = FOVEA_SCORE_GAUSSIAN;
  score.sigma = sigma;
  fovea_attention_options attention = {};
  attention.struct_size = sizeof attention;
  attention.flags = options.flags;
  attention.weights = options.weights;
  return attend(context, {.score = &score,
                          .query = &matrices.queries,
                          .key = &matrices.inputs,
                          .prepared = nullptr,
                          .value = &matrices.targets,
                          .out = &matrices.out,
                          .options = &attention});
}

}  // namespace fovea
