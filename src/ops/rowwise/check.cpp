#include "ops/rowwise/check.hpp"

#include <cinttypes>
#include <cmath>

#include "ops/tensors/scaled.hpp"

namespace fovea {
namespace {

// One number for each feature, or nothing.
Status check_per_feature(const fovea_tensor *tensor, const char *name, int64_t dim) {
  if (tensor == nullptr) return FOVEA_OK;
  FOVEA_CHECK(check_tensor(tensor, {.name = name, .max_rank = 1, .narrow = true}));
  return check_size(*tensor, name, 0, dim, "x's last size");
}

// One number for each row, or nothing.
Status check_per_row(const fovea_tensor *tensor, const char *name, const fovea_tensor &x) {
  if (tensor == nullptr) return FOVEA_OK;
  FOVEA_CHECK(check_tensor(
      tensor,
      {.name = name, .min_rank = x.rank - 1, .max_rank = x.rank - 1, .output = true, .contiguous_last = false}));
  for (int axis = 0; axis + 1 < x.rank; ++axis) {
    FOVEA_CHECK(check_size(*tensor, name, axis, x.shape[axis], "x's size"));
  }
  return FOVEA_OK;
}

// Scales of numbers that stand for x: for groups of features that divide its rows, or for whole rows.
Status check_scales(const fovea_tensor *scales, fovea_dtype numbers, const fovea_tensor &x, const char *x_name,
                    bool output) {
  const TensorRule rule = {
      .name = "scales", .dtype = Dtype::f16, .min_rank = x.rank, .max_rank = x.rank, .output = output};
  FOVEA_CHECK(check_tensor(scales, rule));
  const int last = x.rank - 1;
  for (int axis = 0; axis < last; ++axis) {
    FOVEA_CHECK(check_size(*scales, "scales", axis, x.shape[axis], "the size of the numbers"));
  }
  const int64_t features = is_scaled_type(x.dtype) ? features_of(x) : last_size(x);
  if (features == 0) return fail(FOVEA_BAD_SHAPE, "%s.shape[%d] is 0, expected 1 or more features", x_name, last);
  if (scales_fit(numbers, features, last_size(*scales))) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "scales.shape[%d] is %" PRId64 ", expected %s of %s's %" PRId64 " features", last,
              last_size(*scales), fitting_scales(numbers), x_name, features);
}

// The rule for numbers that have scales: U8 where they are, else I8.
TensorRule rule_of_numbers(const fovea_tensor *numbers, TensorRule rule) {
  rule.dtype = numbers != nullptr && numbers->dtype == FOVEA_U8 ? Dtype::u8 : Dtype::i8;
  return rule;
}

// Of `like`'s shape, but for the last axis.
Status check_rows_shape(const fovea_tensor &tensor, const char *name, const fovea_tensor &like, const char *why) {
  for (int axis = 0; axis + 1 < like.rank; ++axis) FOVEA_CHECK(check_size(tensor, name, axis, like.shape[axis], why));
  return FOVEA_OK;
}

Status check_blocks(const fovea_tensor &tensor, const char *name, int64_t step) {
  if (last_size(tensor) % step == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_SHAPE, "%s.shape[%d] is %" PRId64 ", expected a multiple of %" PRId64 " for FOVEA_U8", name,
              tensor.rank - 1, last_size(tensor), step);
}

Status check_epsilon(float given, uint32_t flags, double *epsilon) {
  *epsilon = is_default(given, flags, FOVEA_NORM_EPSILON_GIVEN) ? 1e-5 : static_cast<double>(given);
  if (*epsilon >= 0.0 && std::isfinite(*epsilon)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.epsilon is %g, expected a finite number, 0 or more", *epsilon);
}

// Each of out and sum may be x or the residual.
Status check_norm_overlaps(const NormOperands &given) {
  FOVEA_CHECK(check_overlaps(
      {{"out", given.out}, {"sum", given.sum}, {"mean", given.mean}, {"inverse_deviation", given.inverse_deviation}},
      {{"weight", given.weight}, {"bias", given.bias}}));
  for (const NamedTensor &input : {NamedTensor{"x", given.x}, NamedTensor{"residual", given.residual}}) {
    if (input.tensor == nullptr) continue;
    for (const NamedTensor &output : {NamedTensor{"out", given.out}, NamedTensor{"sum", given.sum}}) {
      if (output.tensor == nullptr || same_memory(*input.tensor, *output.tensor)) continue;
      FOVEA_CHECK(check_overlaps({output}, {input}));
    }
    FOVEA_CHECK(check_overlaps({{"mean", given.mean}, {"inverse_deviation", given.inverse_deviation}}, {input}));
  }
  return FOVEA_OK;
}

}  // namespace

Status check_norm_options(const fovea_layer_norm_options &options, NormSettings *settings) {
  *settings = {.kind = NormKind::layer, .epsilon = 0, .weight_raise = weight_as_it_is};
  FOVEA_CHECK(check_flags(options.flags, FOVEA_NORM_EPSILON_GIVEN));
  return check_epsilon(options.epsilon, options.flags, &settings->epsilon);
}

Status check_norm_options(const fovea_rms_norm_options &options, NormSettings *settings) {
  const bool raised = (options.flags & FOVEA_NORM_WEIGHT_FROM_ONE) != 0;
  *settings = {.kind = NormKind::rms, .epsilon = 0, .weight_raise = raised ? 1.0f : weight_as_it_is};
  FOVEA_CHECK(check_flags(options.flags, FOVEA_NORM_EPSILON_GIVEN | FOVEA_NORM_WEIGHT_FROM_ONE));
  return check_epsilon(options.epsilon, options.flags, &settings->epsilon);
}

Status check_norm_inputs(const NormOperands &given) {
  const fovea_tensor *x = given.x;
  FOVEA_CHECK(check_tensor(x, {.name = "x", .narrow = true}));
  const int64_t dim = x->shape[x->rank - 1];
  if (dim == 0) return fail(FOVEA_BAD_SHAPE, "x.shape[%d] is 0, expected 1 or more features", x->rank - 1);
  if (given.residual != nullptr) {
    FOVEA_CHECK(check_like_x(given.residual, "residual", *x, false));
  }
  FOVEA_CHECK(check_per_feature(given.weight, "weight", dim));
  return check_per_feature(given.bias, "bias", dim);
}

Status check_norm_tensors(const NormOperands &given) {
  FOVEA_CHECK(check_norm_inputs(given));
  const fovea_tensor *x = given.x;
  FOVEA_CHECK(check_like_x(given.out, "out", *x, true));
  if (given.sum != nullptr) {
    FOVEA_CHECK(expect_given(given.residual, "options.residual", "a tensor, as options.sum is given"));
    FOVEA_CHECK(check_like_x(given.sum, "sum", *x, true));
  }
  FOVEA_CHECK(check_per_row(given.mean, "mean", *x));
  FOVEA_CHECK(check_per_row(given.inverse_deviation, "inverse_deviation", *x));
  return check_norm_overlaps(given);
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

Status check_softmax_over_axis(const fovea_tensor *x, int32_t axis, const fovea_tensor *out) {
  FOVEA_CHECK(check_elements(x, out));
  return check_range("", "axis", axis, -x->rank, x->rank - 1);
}

Status check_elements(const fovea_tensor *x, const fovea_tensor *out) {
  FOVEA_CHECK(check_tensor(x, {.name = "x", .narrow = true}));
  FOVEA_CHECK(check_like_x(out, "out", *x, true));
  return same_memory(*x, *out) ? FOVEA_OK : check_overlaps({{"out", out}}, {{"x", x}});
}

Status check_activation(int32_t kind) {
  if (kind >= FOVEA_ACTIVATION_NONE && kind <= FOVEA_ACTIVATION_SILU) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "activation is %d, expected %d to %d (FOVEA_ACTIVATION_*)", kind, FOVEA_ACTIVATION_NONE,
              FOVEA_ACTIVATION_SILU);
}

Status check_quantize(const fovea_tensor *x, const fovea_tensor *out, const fovea_tensor *scales) {
  FOVEA_CHECK(check_tensor(x, {.name = "x", .narrow = true}));
  const TensorRule rule = {.name = "out", .min_rank = x->rank, .max_rank = x->rank, .output = true};
  FOVEA_CHECK(check_tensor(out, rule_of_numbers(out, rule)));
  FOVEA_CHECK(check_rows_shape(*out, "out", *x, "x's size"));
  const bool pairs = out->dtype == FOVEA_U8;
  if (pairs) FOVEA_CHECK(check_blocks(*x, "x", group_step(FOVEA_U8)));
  FOVEA_CHECK(check_size(*out, "out", x->rank - 1, last_size(*x) / paired(out->dtype),
                         pairs ? "half of x's size" : "x's size"));
  FOVEA_CHECK(check_scales(scales, out->dtype, *x, "x", true));
  return check_overlaps({{"out", out}, {"scales", scales}}, {{"x", x}});
}

Status check_dequantize(const fovea_tensor *q, const fovea_tensor *scales, const fovea_tensor *out) {
  FOVEA_CHECK(check_tensor(q, rule_of_numbers(q, {.name = "q"})));
  const bool pairs = q->dtype == FOVEA_U8;
  if (pairs) FOVEA_CHECK(check_blocks(*q, "q", group_step(FOVEA_U8) / paired(FOVEA_U8)));
  FOVEA_CHECK(check_scales(scales, q->dtype, *q, "q", false));
  FOVEA_CHECK(
      check_tensor(out, {.name = "out", .min_rank = q->rank, .max_rank = q->rank, .output = true, .narrow = true}));
  FOVEA_CHECK(check_rows_shape(*out, "out", *q, "q's size"));
  FOVEA_CHECK(check_size(*out, "out", q->rank - 1, features_of(*q), pairs ? "twice q's size" : "q's size"));
  return check_overlaps({{"out", out}}, {{"q", q}, {"scales", scales}});
}

}  // namespace fovea
