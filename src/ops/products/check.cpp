#include "ops/products/check.hpp"

#include <cmath>

#include "runtime/dispatch.hpp"

namespace fovea {
namespace {

constexpr int most_axes = 4;         // of a product
constexpr int most_packed_axes = 3;  // of one with a packed matrix

Status check_rows(const ProductNames &names, const fovea_tensor *x, const fovea_tensor *out, int max_rank) {
  const TensorRule x_rule = {
      .name = names.x, .min_rank = 2, .max_rank = max_rank, .contiguous_last = false, .narrow = true};
  const TensorRule out_rule = {.name = "out", .min_rank = 2, .max_rank = max_rank, .output = true, .narrow = true};
  FOVEA_CHECK(check_tensor(x, x_rule));
  FOVEA_CHECK(check_tensor(out, out_rule));
  return check_size(*out, "out", out->rank - 2, x->shape[x->rank - 2], names.x_rows);
}

// The axis is out's, counted from its end, or 1.
Status check_repeats(const fovea_tensor &operand, const char *name, int from_last, const fovea_tensor &out) {
  const int axis = operand.rank - from_last;
  if (operand.shape[axis] == 1) return FOVEA_OK;
  return check_size(operand, name, axis, out.shape[out.rank - from_last], "out's size, or 1");
}

Status check_batches(const fovea_tensor &operand, const char *name, const fovea_tensor &out) {
  if (operand.rank > out.rank) {
    return fail(FOVEA_BAD_RANK, "out has rank %d, expected %d like %s", out.rank, operand.rank, name);
  }
  for (int from_last = 3; from_last <= operand.rank; ++from_last) {
    FOVEA_CHECK(check_repeats(operand, name, from_last, out));
  }
  return FOVEA_OK;
}

// An operand of out's shape, or null, that may be out itself.
Status check_like_out(const fovea_tensor *operand, const char *name, const fovea_tensor &out) {
  if (operand == nullptr) return FOVEA_OK;
  FOVEA_CHECK(check_tensor(operand, {.name = name, .min_rank = out.rank, .max_rank = out.rank, .narrow = true}));
  for (int axis = 0; axis < out.rank; ++axis) {
    FOVEA_CHECK(check_size(*operand, name, axis, out.shape[axis], "out's shape"));
  }
  return check_overlaps({{"out", &out}}, {{name, same_memory(*operand, out) ? nullptr : operand}});
}

Status check_factor(const char *name, float *factor, uint32_t flags, uint32_t given) {
  if (is_default(*factor, flags, given)) *factor = 1;
  if (std::isfinite(*factor)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.%s is %g, expected a finite number", name, static_cast<double>(*factor));
}

}  // namespace

Status check_matmul(const fovea_tensor *a, const fovea_tensor *b, const fovea_tensor *out) {
  FOVEA_CHECK(check_rows(matmul_names, a, out, most_axes));
  const TensorRule rule = {.name = "b", .min_rank = 2, .max_rank = most_axes, .contiguous_last = false, .narrow = true};
  FOVEA_CHECK(check_tensor(b, rule));
  FOVEA_CHECK(check_batches(*a, "a", *out));
  FOVEA_CHECK(check_batches(*b, "b", *out));
  FOVEA_CHECK(check_size(*a, "a", a->rank - 1, b->shape[b->rank - 2], matmul_names.inputs));
  FOVEA_CHECK(check_size(*out, "out", out->rank - 1, b->shape[b->rank - 1], matmul_names.outputs));
  return check_overlaps({{"out", out}}, {{"a", a}, {"b", b}});
}

Status check_gemm_options(fovea_gemm_options *options) {
  FOVEA_CHECK(check_flags(options->flags, FOVEA_GEMM_ALPHA_GIVEN | FOVEA_GEMM_BETA_GIVEN));
  FOVEA_CHECK(check_reserved(options->reserved));
  FOVEA_CHECK(check_factor("alpha", &options->alpha, options->flags, FOVEA_GEMM_ALPHA_GIVEN));
  return check_factor("beta", &options->beta, options->flags, FOVEA_GEMM_BETA_GIVEN);
}

Status check_added(const fovea_gemm_options &options, const fovea_tensor &out) {
  const fovea_tensor *c = options.c;
  if (c == nullptr) return FOVEA_OK;
  FOVEA_CHECK(check_tensor(c, {.name = "c", .max_rank = out.rank, .narrow = true}));
  for (int from_last = 1; from_last <= c->rank; ++from_last) {
    FOVEA_CHECK(check_repeats(*c, "c", from_last, out));
  }
  return check_overlaps({{"out", &out}}, {{"c", same_memory(*c, out) ? nullptr : c}});
}

Status check_packed_product(const Context &context, const ProductNames &names, const fovea_tensor *x,
                            const fovea_packed_matrix *weight, const fovea_tensor *out) {
  FOVEA_CHECK(expect_given(weight, names.weight, "a packed matrix"));
  FOVEA_CHECK(check_rows(names, x, out, most_packed_axes));
  if (out->rank == 2 && x->rank == 3) return fail(FOVEA_BAD_RANK, "out has rank 2, expected 3 like %s", names.x);
  const int64_t batch = out->rank == 3 ? out->shape[0] : 1;
  if (x->rank == 3) {
    FOVEA_CHECK(check_size(*x, names.x, 0, batch, "out's batch size"));
  }
  FOVEA_CHECK(check_size(*x, names.x, x->rank - 1, weight->depth, names.inputs));
  FOVEA_CHECK(check_size(*out, "out", out->rank - 1, weight->columns, names.outputs));
  FOVEA_CHECK(check_overlaps({{"out", out}}, {{names.x, x}}));
  if (same_set(*weight->kernels, *context.kernels)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "%s was packed for %s, expected %s, the context's instruction set", names.weight,
              weight->kernels->name, context.kernels->name);
}

Status check_linear_pack_options(const fovea_linear_pack_options &options) {
  if (options.layout != FOVEA_WEIGHT_OUT_IN && options.layout != FOVEA_WEIGHT_IN_OUT) {
    return fail(FOVEA_BAD_VALUE, "options.layout is %d, expected %d (OUT_IN) or %d (IN_OUT)", options.layout,
                FOVEA_WEIGHT_OUT_IN, FOVEA_WEIGHT_IN_OUT);
  }
  return check_precision("options", options.precision);
}

Status check_linear_options(const fovea_linear_options &options, const fovea_tensor &out) {
  if (options.activation < FOVEA_ACTIVATION_NONE || options.activation > FOVEA_ACTIVATION_SILU) {
    return fail(FOVEA_BAD_VALUE, "options.activation is %d, expected %d to %d (FOVEA_ACTIVATION_*)", options.activation,
                FOVEA_ACTIVATION_NONE, FOVEA_ACTIVATION_SILU);
  }
  FOVEA_CHECK(check_precision("options", options.precision));
  if (options.bias != nullptr) {
    const TensorRule rule = {.name = "bias", .max_rank = 1, .contiguous_last = false, .narrow = true};
    FOVEA_CHECK(check_tensor(options.bias, rule));
    FOVEA_CHECK(check_size(*options.bias, "bias", 0, out.shape[out.rank - 1], "weight's outputs"));
  }
  FOVEA_CHECK(check_overlaps({{"out", &out}}, {{"bias", options.bias}}));
  FOVEA_CHECK(check_like_out(options.multiplier, "multiplier", out));
  return check_like_out(options.residual, "residual", out);
}

}  // namespace fovea
