#include "ops/attention/regression_check.hpp"

#include <cmath>

#include "ops/tensors/check.hpp"

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
                               .contiguous_last = tensor != nullptr && tensor->rank == 2,
                               .narrow = true});
}

// In this call's terms: attention's own checks would blame a query or a key.
Status check_sizes(const RegressionMatrices &m, const fovea_tensor *weights) {
  const int64_t queries = m.queries.shape[0];
  const int64_t inputs = m.inputs.shape[0];
  FOVEA_CHECK(expect_sizes(
      {{"inputs", "columns", m.inputs.shape[1], m.queries.shape[1], "as queries"},
       {"targets", "rows", m.targets.shape[0], inputs, "as inputs"},
       {"out", "rows", m.out.shape[0], queries, "as queries"},
       {"out", "columns", m.out.shape[1], m.targets.shape[1], "as targets"},
       {"weights", "rows", weights == nullptr ? queries : weights->shape[0], queries, "as queries"},
       {"weights", "columns", weights == nullptr ? inputs : weights->shape[1], inputs, "the rows of inputs"}}));
  const struct {
    const char *name, *what;
    int64_t size, least, most;
  } ranges[] = {{"queries", "rows", queries, 0, largest_length},
                {"inputs", "rows", inputs, 0, largest_length},
                {"queries", "columns", m.queries.shape[1], 1, largest_head_dim},
                {"targets", "columns", m.targets.shape[1], 1, largest_head_dim}};
  for (const auto &range : ranges) {
    FOVEA_CHECK(expect_size_in(range.name, range.what, range.size, range.least, range.most));
  }
  return FOVEA_OK;
}

}  // namespace

Status check_regression_options(const fovea_kernel_regression_options *given,
                                fovea_kernel_regression_options *options) {
  FOVEA_CHECK(read_options("options", given, options));
  FOVEA_CHECK(check_flags(options->flags, FOVEA_LEAVE_ONE_OUT | FOVEA_SIGMA_GIVEN));
  if (is_default(options->sigma, options->flags, FOVEA_SIGMA_GIVEN)) options->sigma = 1.0f;
  if (std::isfinite(options->sigma) && options->sigma > 0.0f) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.sigma is %g, expected a finite number above 0%s",
              static_cast<double>(options->sigma), (options->flags & FOVEA_SIGMA_GIVEN) != 0 ? "" : ", or 0 for 1");
}

Status check_regression(const RegressionTensors &given, const fovea_tensor *weights, RegressionMatrices *matrices) {
  FOVEA_CHECK(check_rank(given.queries, "queries", false, 0));
  FOVEA_CHECK(check_rank(given.inputs, "inputs", false, given.queries->rank));
  FOVEA_CHECK(check_rank(given.targets, "targets", false, 0));
  FOVEA_CHECK(check_rank(given.out, "out", true, given.targets->rank));
  if (weights != nullptr) {
    const TensorRule rule = {.name = "weights", .min_rank = 2, .max_rank = 2, .output = true, .narrow = true};
    FOVEA_CHECK(check_tensor(weights, rule));
  }
  *matrices = {as_matrix(*given.queries), as_matrix(*given.inputs), as_matrix(*given.targets), as_matrix(*given.out)};
  FOVEA_CHECK(check_sizes(*matrices, weights));
  return check_overlaps({{"out", given.out}, {"weights", weights}},
                        {{"queries", given.queries}, {"inputs", given.inputs}, {"targets", given.targets}});
}

}  // namespace fovea
