#include "ops/rowwise/check.hpp"

#include <cmath>

namespace fovea {
namespace {

// One number for each feature, or nothing.
Status check_per_feature(const fovea_tensor *tensor, const char *name, int64_t dim) {
  if (tensor == nullptr) return FOVEA_OK;
  FOVEA_CHECK(check_tensor(tensor, {.name = name, .max_rank = 1, .narrow = true}));
  return check_size(*tensor, name, 0, dim, "x's last size");
}

}  // namespace

Status check_norm_options(const fovea_layer_norm_options &options, double *epsilon) {
  FOVEA_CHECK(check_flags(options.flags, FOVEA_NORM_EPSILON_GIVEN));
  const bool usual = is_default(options.epsilon, options.flags, FOVEA_NORM_EPSILON_GIVEN);
  *epsilon = usual ? 1e-5 : static_cast<double>(options.epsilon);
  if (*epsilon >= 0.0 && std::isfinite(*epsilon)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.epsilon is %g, expected a finite number, 0 or more", *epsilon);
}

Status check_norm_tensors(const NormOperands &given) {
  const fovea_tensor *x = given.x;
  FOVEA_CHECK(check_tensor(x, {.name = "x", .narrow = true}));
  const int64_t dim = x->shape[x->rank - 1];
  if (dim == 0) return fail(FOVEA_BAD_SHAPE, "x.shape[%d] is 0, expected 1 or more features", x->rank - 1);
  FOVEA_CHECK(check_like_x(given.out, "out", *x, true));
  if (given.residual != nullptr) {
    FOVEA_CHECK(check_like_x(given.residual, "residual", *x, false));
  }
  FOVEA_CHECK(check_per_feature(given.weight, "weight", dim));
  FOVEA_CHECK(check_per_feature(given.bias, "bias", dim));
  const fovea_tensor *out = given.out;
  const bool over_residual = given.residual != nullptr && same_memory(*given.residual, *out);
  return check_overlaps({{"out", out}}, {{"x", same_memory(*x, *out) ? nullptr : x},
                                         {"residual", over_residual ? nullptr : given.residual},
                                         {"weight", given.weight},
                                         {"bias", given.bias}});
}

Status check_softmax_options(const fovea_masked_softmax_options *given, EmptyRows *empty_rows) {
  fovea_masked_softmax_options options;
  FOVEA_CHECK(read_options("options", given, &options));
  FOVEA_CHECK(check_reserved(options.reserved));
  if (options.empty_rows < FOVEA_EMPTY_ROWS_ZERO || options.empty_rows > FOVEA_EMPTY_ROWS_NAN) {
    return fail(FOVEA_BAD_VALUE, "options.empty_rows is %d, expected FOVEA_EMPTY_ROWS_ZERO, _UNIFORM or _NAN",
                options.empty_rows);
  }
  *empty_rows = static_cast<EmptyRows>(options.empty_rows);
  return FOVEA_OK;
}

Status check_softmax_tensors(const fovea_tensor *x, const fovea_tensor *valid_lens, const fovea_tensor *out) {
  FOVEA_CHECK(check_tensor(x, {.name = "x", .min_rank = 2, .narrow = true}));
  FOVEA_CHECK(check_like_x(out, "out", *x, true));
  if (valid_lens != nullptr) {
    const int64_t batch = x->rank == 2 ? 1 : x->shape[0];
    const int64_t query_len = x->shape[x->rank - 2];
    FOVEA_CHECK(check_valid_lens_tensor(*valid_lens, batch, query_len, true));
    FOVEA_CHECK(element_count(*x) == 0
                    ? FOVEA_OK
                    : check_integers(*valid_lens, "valid_lens", x->shape[x->rank - 1], " keys", nullptr));
  }
  if (same_memory(*x, *out)) return check_overlaps({{"out", out}}, {{"valid_lens", valid_lens}});
  return check_overlaps({{"out", out}}, {{"x", x}, {"valid_lens", valid_lens}});
}

}  // namespace fovea
