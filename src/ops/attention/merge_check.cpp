#include "ops/attention/merge_check.hpp"

#include <cinttypes>

#include "ops/tensors/check.hpp"

namespace fovea {
namespace {

// All axes of lses but the first must be those of outs and out.
Status check_shapes(const fovea_tensor &outs, const fovea_tensor &lses, const fovea_tensor &out,
                    const fovea_tensor *log_sum_exp) {
  const int last = outs.rank - 1;
  if (outs.shape[0] < 1) {
    return fail(FOVEA_BAD_SHAPE, "outs.shape[0] is %" PRId64 ", expected 1 part or more", outs.shape[0]);
  }
  for (int axis = 0; axis < last; ++axis) {
    FOVEA_CHECK(check_size(lses, "lses", axis, outs.shape[axis], "outs's size"));
  }
  for (int axis = 0; axis < last; ++axis) {
    FOVEA_CHECK(check_size(out, "out", axis, outs.shape[axis + 1], "outs's size"));
  }
  for (int axis = 0; log_sum_exp != nullptr && axis + 1 < last; ++axis) {
    FOVEA_CHECK(check_size(*log_sum_exp, "log_sum_exp", axis, outs.shape[axis + 1], "outs's size"));
  }
  return FOVEA_OK;
}

Status check_rank(const fovea_tensor *tensor, const char *name, int rank, bool output, bool narrow = false) {
  return check_tensor(tensor, {.name = name, .min_rank = rank, .max_rank = rank, .output = output, .narrow = narrow});
}

}  // namespace

Status check_merge(const fovea_tensor *outs, const fovea_tensor *lses, const fovea_tensor *out,
                   const fovea_tensor *log_sum_exp) {
  FOVEA_CHECK(check_tensor(outs, {.name = "outs", .min_rank = 2, .narrow = true}));
  FOVEA_CHECK(check_rank(lses, "lses", outs->rank - 1, false));
  FOVEA_CHECK(check_rank(out, "out", outs->rank - 1, true, true));
  if (log_sum_exp != nullptr) {
    FOVEA_CHECK(check_rank(log_sum_exp, "log_sum_exp", outs->rank - 2, true));
  }
  FOVEA_CHECK(check_shapes(*outs, *lses, *out, log_sum_exp));
  return check_overlaps({{"out", out}, {"log_sum_exp", log_sum_exp}}, {{"outs", outs}, {"lses", lses}});
}

}  // namespace fovea
