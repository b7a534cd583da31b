#include "ops/layer_gradients/check.hpp"

#include <algorithm>

#include "ops/products/check.hpp"

namespace fovea {
namespace {

Status check_like(const fovea_tensor *tensor, const char *name, const fovea_tensor &like, const char *why,
                  bool output) {
  if (tensor == nullptr) return FOVEA_OK;
  const TensorRule rule = {
      .name = name, .min_rank = like.rank, .max_rank = like.rank, .output = output, .narrow = true};
  FOVEA_CHECK(check_tensor(tensor, rule));
  for (int axis = 0; axis < like.rank; ++axis) FOVEA_CHECK(check_size(*tensor, name, axis, like.shape[axis], why));
  return FOVEA_OK;
}

// A gradient is wanted of what there is.
Status check_owner(const fovea_tensor *gradient, const char *name, const fovea_tensor *owner, const char *owner_name) {
  if (gradient == nullptr || owner != nullptr) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s is given, expected NULL: %s is NULL", name, owner_name);
}

Status check_vector(const fovea_tensor *tensor, const char *name, int64_t size, const char *why, bool contiguous,
                    bool output) {
  if (tensor == nullptr) return FOVEA_OK;
  FOVEA_CHECK(check_tensor(
      tensor, {.name = name, .max_rank = 1, .output = output, .contiguous_last = contiguous, .narrow = true}));
  return check_size(*tensor, name, 0, size, why);
}

}  // namespace

bool wants_any(std::initializer_list<const fovea_tensor *> gradients) {
  return std::any_of(gradients.begin(), gradients.end(), [](const fovea_tensor *gradient) {
    if (gradient == nullptr) return false;
    const int rank = std::clamp(gradient->rank, 0, FOVEA_MAX_RANK);  // it may not have been checked yet
    return std::none_of(gradient->shape, gradient->shape + rank, [](int64_t size) { return size == 0; });
  });
}

Status too_large_for_sums(const char *name) {
  return fail(FOVEA_SIZE_OVERFLOW, "%s is too large: sums over its rows would exceed the address space", name);
}

Status check_norm_gradients(const NormGradientOperands &given, NormKind kind) {
  const fovea_tensor *x = given.x;
  FOVEA_CHECK(check_norm_inputs({x, given.weight, given.bias, given.residual, nullptr, nullptr, nullptr, nullptr}));
  const int64_t dim = x->shape[x->rank - 1];
  FOVEA_CHECK(expect_given(given.grad_out, "gradients.out", "the gradient of out"));
  FOVEA_CHECK(check_like(given.grad_out, "gradients.out", *x, "x's size", false));
  FOVEA_CHECK(check_owner(given.grad_sum, "gradients.sum", given.residual, "options.residual"));
  FOVEA_CHECK(check_like(given.grad_sum, "gradients.sum", *x, "x's size", false));
  FOVEA_CHECK(check_like(given.grad_x, "gradients.x", *x, "x's size", true));
  FOVEA_CHECK(check_owner(given.grad_weight, "gradients.weight", given.weight, "options.weight"));
  if (kind == NormKind::rms && given.grad_bias != nullptr) {
    return fail(FOVEA_BAD_VALUE, "gradients.bias is given, expected NULL: RMS normalisation has no bias");
  }
  FOVEA_CHECK(check_owner(given.grad_bias, "gradients.bias", given.bias, "options.bias"));
  FOVEA_CHECK(check_vector(given.grad_weight, "gradients.weight", dim, "x's last size", true, true));
  FOVEA_CHECK(check_vector(given.grad_bias, "gradients.bias", dim, "x's last size", true, true));
  const auto unless_in_place = [&](const fovea_tensor *tensor) {
    return tensor != nullptr && given.grad_x != nullptr && same_memory(*tensor, *given.grad_x) ? nullptr : tensor;
  };
  FOVEA_CHECK(check_overlaps({{"gradients.weight", given.grad_weight}, {"gradients.bias", given.grad_bias}},
                             {{"gradients.out", given.grad_out}, {"gradients.sum", given.grad_sum}}));
  FOVEA_CHECK(check_overlaps({{"gradients.x", given.grad_x}}, {{"gradients.out", unless_in_place(given.grad_out)},
                                                               {"gradients.sum", unless_in_place(given.grad_sum)}}));
  return check_overlaps(
      {{"gradients.x", given.grad_x}, {"gradients.weight", given.grad_weight}, {"gradients.bias", given.grad_bias}},
      {{"x", x}, {"residual", given.residual}, {"weight", given.weight}, {"bias", given.bias}});
}

Status check_element_gradients(const ElementGradientOperands &given) {
  FOVEA_CHECK(check_tensor(given.x, {.name = given.x_name, .narrow = true}));
  FOVEA_CHECK(expect_given(given.grad_out, "grad_out", "the gradient of out"));
  FOVEA_CHECK(expect_given(given.grad_x, "grad_x", "where to write the gradient"));
  FOVEA_CHECK(check_like(given.grad_out, "grad_out", *given.x, given.x_size, false));
  FOVEA_CHECK(check_like(given.grad_x, "grad_x", *given.x, given.x_size, true));
  const bool in_place = same_memory(*given.grad_out, *given.grad_x);
  return check_overlaps({{"grad_x", given.grad_x}},
                        {{given.x_name, given.x}, {"grad_out", in_place ? nullptr : given.grad_out}});
}

Status check_softmax_gradients(const ElementGradientOperands &given, const fovea_tensor *valid_lens) {
  FOVEA_CHECK(check_tensor(given.x, {.name = given.x_name, .min_rank = 2, .narrow = true}));
  FOVEA_CHECK(check_element_gradients(given));
  if (valid_lens == nullptr) return FOVEA_OK;
  const fovea_tensor &out = *given.x;
  const int64_t batch = out.rank == 2 ? 1 : out.shape[0];
  FOVEA_CHECK(check_valid_lens_tensor(*valid_lens, batch, out.shape[out.rank - 2], true));
  FOVEA_CHECK(element_count(out) == 0
                  ? FOVEA_OK
                  : check_integers(*valid_lens, "valid_lens", out.shape[out.rank - 1], " keys", nullptr));
  return check_overlaps({{"grad_x", given.grad_x}}, {{"valid_lens", valid_lens}});
}

Status check_softmax_gradients_over(const ElementGradientOperands &given, int32_t axis) {
  FOVEA_CHECK(check_element_gradients(given));
  return check_range("", "axis", axis, -given.x->rank, given.x->rank - 1);
}

Status check_merge_gradients(const MergeGradientOperands &given) {
  const fovea_tensor *outs = given.outs;
  FOVEA_CHECK(check_tensor(outs, {.name = "outs", .min_rank = 2, .narrow = true}));
  fovea_tensor merged = *outs, numbers = *outs, sums = *outs;  // the shapes of out, lses and log_sum_exp
  const int last = outs->rank - 1;
  for (int axis = 0; axis < last; ++axis) merged.shape[axis] = sums.shape[axis] = outs->shape[axis + 1];
  merged.rank = numbers.rank = last;
  sums.rank = last - 1;
  if (outs->shape[0] < 1) return fail(FOVEA_BAD_SHAPE, "outs.shape[0] is 0, expected 1 part or more");
  const auto check_numbers = [](const fovea_tensor *tensor, const char *name, const fovea_tensor &like,
                                bool output) -> Status {
    FOVEA_CHECK(check_tensor(tensor, {.name = name, .min_rank = like.rank, .max_rank = like.rank, .output = output}));
    for (int axis = 0; axis < like.rank; ++axis) {
      FOVEA_CHECK(check_size(*tensor, name, axis, like.shape[axis], "outs's size"));
    }
    return FOVEA_OK;
  };
  FOVEA_CHECK(check_numbers(given.lses, "lses", numbers, false));
  FOVEA_CHECK(expect_given(given.grad_out, "gradients.out", "the gradient of out"));
  FOVEA_CHECK(check_like(given.grad_out, "gradients.out", merged, "outs's size", false));
  if (given.grad_log_sum_exp != nullptr) {
    FOVEA_CHECK(check_numbers(given.grad_log_sum_exp, "gradients.log_sum_exp", sums, false));
  }
  FOVEA_CHECK(check_like(given.grad_outs, "gradients.outs", *outs, "outs's size", true));
  if (given.grad_lses != nullptr) {
    FOVEA_CHECK(check_numbers(given.grad_lses, "gradients.lses", numbers, true));
  }
  return check_overlaps({{"gradients.outs", given.grad_outs}, {"gradients.lses", given.grad_lses}},
                        {{"outs", outs},
                         {"lses", given.lses},
                         {"gradients.out", given.grad_out},
                         {"gradients.log_sum_exp", given.grad_log_sum_exp}});
}

Status check_linear_gradients(const LinearGradientOperands &given, int32_t layout,
                              const fovea_linear_options &options) {
  const fovea_tensor *x = given.x, *weight = given.weight, *grad_out = given.grad_out;
  FOVEA_CHECK(check_tensor(x, {.name = "x", .min_rank = 2, .max_rank = 3, .contiguous_last = false, .narrow = true}));
  FOVEA_CHECK(
      check_tensor(weight, {.name = "weight", .min_rank = 2, .max_rank = 2, .contiguous_last = false, .narrow = true}));
  if (layout != FOVEA_WEIGHT_OUT_IN && layout != FOVEA_WEIGHT_IN_OUT) {
    return fail(FOVEA_BAD_VALUE, "layout is %d, expected %d (OUT_IN) or %d (IN_OUT)", layout, FOVEA_WEIGHT_OUT_IN,
                FOVEA_WEIGHT_IN_OUT);
  }
  const int outputs = layout == FOVEA_WEIGHT_OUT_IN ? 0 : 1;
  FOVEA_CHECK(check_size(*x, "x", x->rank - 1, weight->shape[1 - outputs], linear_names.inputs));
  fovea_tensor out = *x;
  out.shape[x->rank - 1] = weight->shape[outputs];
  FOVEA_CHECK(expect_given(grad_out, "gradients.out", "the gradient of out"));
  FOVEA_CHECK(check_like(grad_out, "gradients.out", out, "that of x's rows and weight's outputs", false));
  FOVEA_CHECK(check_activation(options.activation));
  FOVEA_CHECK(check_precision("options", options.precision));
  FOVEA_CHECK(check_vector(given.bias, "bias", weight->shape[outputs], "weight's outputs", false, false));
  FOVEA_CHECK(check_like(given.multiplier, "multiplier", *grad_out, "gradients.out's size", false));
  FOVEA_CHECK(check_owner(given.grad_bias, "gradients.bias", given.bias, "options.bias"));
  FOVEA_CHECK(check_owner(given.grad_multiplier, "gradients.multiplier", given.multiplier, "options.multiplier"));
  FOVEA_CHECK(check_like(given.grad_x, "gradients.x", *x, "x's size", true));
  FOVEA_CHECK(check_like(given.grad_weight, "gradients.weight", *weight, "weight's size", true));
  FOVEA_CHECK(check_vector(given.grad_bias, "gradients.bias", weight->shape[outputs], "weight's outputs", false, true));
  FOVEA_CHECK(check_like(given.grad_multiplier, "gradients.multiplier", *grad_out, "gradients.out's size", true));
  return check_overlaps({{"gradients.x", given.grad_x},
                         {"gradients.weight", given.grad_weight},
                         {"gradients.bias", given.grad_bias},
                         {"gradients.multiplier", given.grad_multiplier}},
                        {{"x", x},
                         {"weight", weight},
                         {"bias", given.bias},
                         {"multiplier", given.multiplier},
                         {"gradients.out", grad_out}});
}

}  // namespace fovea
