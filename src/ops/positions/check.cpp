#include "ops/positions/check.hpp"

#include <cinttypes>
#include <cmath>

namespace fovea {
namespace {

Status check_base(float given, uint32_t flags, uint32_t given_flag, double *base) {
  *base = is_default(given, flags, given_flag) ? 10000.0 : static_cast<double>(given);
  if (*base > 1.0 && std::isfinite(*base)) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.base is %g, expected a finite number above 1%s", *base,
              (flags & given_flag) != 0 ? "" : ", or 0 for 10000");
}

Status check_offset(int64_t offset) {
  if (offset >= 0 && offset <= largest_length) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.offset is %" PRId64 ", expected 0 to %" PRId64, offset, largest_length);
}

Status check_options(const fovea_rotary_options *given, RotaryArguments *call) {
  FOVEA_CHECK(read_options("options", given, &call->options));
  const fovea_rotary_options &options = call->options;
  FOVEA_CHECK(check_flags(options.flags, FOVEA_ROTARY_INTERLEAVED | FOVEA_ROTARY_INVERSE | FOVEA_ROTARY_BASE_GIVEN |
                                             FOVEA_ROTARY_POSITION_SCALE_GIVEN | FOVEA_ROTARY_DIM_GIVEN));
  FOVEA_CHECK(check_reserved(options.reserved));
  FOVEA_CHECK(check_base(options.base, options.flags, FOVEA_ROTARY_BASE_GIVEN, &call->base));
  const bool usual_scale = is_default(options.position_scale, options.flags, FOVEA_ROTARY_POSITION_SCALE_GIVEN);
  call->position_scale = usual_scale ? 1.0 : static_cast<double>(options.position_scale);
  if (!std::isfinite(call->position_scale)) {
    return fail(FOVEA_BAD_VALUE, "options.position_scale is %g, expected a finite number", call->position_scale);
  }
  call->interleaved = (options.flags & FOVEA_ROTARY_INTERLEAVED) != 0;
  return check_offset(options.offset);
}

Status check_rotary_dim(const fovea_tensor &x, RotaryArguments *call) {
  call->dim = x.shape[x.rank - 1];
  const bool all = is_default(call->options.rotary_dim, call->options.flags, FOVEA_ROTARY_DIM_GIVEN);
  call->rotary_dim = all ? call->dim : call->options.rotary_dim;
  if (all && call->dim % 2 != 0) {
    return fail(FOVEA_BAD_SHAPE, "x.shape[%d] is %" PRId64 ", expected an even number unless options.rotary_dim is set",
                x.rank - 1, call->dim);
  }
  if (call->rotary_dim < 0 || call->rotary_dim > call->dim || call->rotary_dim % 2 != 0) {
    return fail(FOVEA_BAD_VALUE, "options.rotary_dim is %" PRId64 ", expected an even number, 0 to %" PRId64,
                call->rotary_dim, call->dim);
  }
  return FOVEA_OK;
}

Status check_positions_tensor(const fovea_tensor &positions, const fovea_tensor &x) {
  FOVEA_CHECK(check_integer_tensor(positions, "positions", 2, true));
  const int length_axis = positions.rank - 1;
  if (positions.rank == 2) {
    const int64_t batch = x.rank == 2 ? 1 : x.shape[0];
    FOVEA_CHECK(check_size(positions, "positions", 0, batch, "the batch size"));
  }
  return check_size(positions, "positions", length_axis, x.shape[x.rank - 2], "x's number of rows");
}

// Every position is in range, and every angle: those past 2^34 have no digits left in float64 that would tell where on
// the circle they are.
Status check_position_values(const RotaryArguments &call, int64_t length) {
  constexpr double largest_angle = 0x1p34;
  int64_t largest = 0;
  if (!call.has_positions) {
    largest = call.options.offset + length - 1;
  } else
    FOVEA_CHECK(check_integers(call.positions, "positions", largest_length, "", &largest));
  if (std::fabs(call.position_scale) * static_cast<double>(largest) <= largest_angle) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE,
              "options.position_scale is %g, expected at most 2^34 when multiplied by position %" PRId64,
              call.position_scale, largest);
}

}  // namespace

Status check_position_tensors(const fovea_tensor *x, const fovea_tensor *out) {
  FOVEA_CHECK(check_tensor(x, {.name = "x", .min_rank = 2, .narrow = true}));
  FOVEA_CHECK(check_like_x(out, "out", *x, true));
  return same_memory(*x, *out) ? FOVEA_OK : check_overlaps({{"out", out}}, {{"x", x}});
}

Status check_rotary(const fovea_rotary_options *options, const fovea_tensor *x, const fovea_tensor *out,
                    RotaryArguments *call) {
  FOVEA_CHECK(check_options(options, call));
  FOVEA_CHECK(check_position_tensors(x, out));
  FOVEA_CHECK(check_rotary_dim(*x, call));
  const TensorArgument positions(call->options.positions);
  call->has_positions = positions != nullptr;
  if (call->has_positions) {
    FOVEA_CHECK(check_positions_tensor(*positions, *x));
    FOVEA_CHECK(check_overlaps({{"out", out}}, {{"positions", positions}}));
    call->positions = *positions;
  }
  return element_count(*x) == 0 ? FOVEA_OK : check_position_values(*call, x->shape[x->rank - 2]);
}

Status check_encoding(const fovea_positional_encoding_options *given, bool may_drop, EncodingSettings *settings) {
  fovea_positional_encoding_options options;
  FOVEA_CHECK(read_options("options", given, &options));
  FOVEA_CHECK(check_flags(options.flags, FOVEA_ENCODING_BASE_GIVEN));
  FOVEA_CHECK(check_reserved(options.reserved));
  FOVEA_CHECK(check_base(options.base, options.flags, FOVEA_ENCODING_BASE_GIVEN, &settings->base));
  FOVEA_CHECK(check_offset(options.offset));
  settings->offset = options.offset;
  if (!may_drop && options.dropout != 0.0f) {
    return fail(FOVEA_BAD_VALUE, "options.dropout is %g, expected 0: the encoding alone is never dropped",
                static_cast<double>(options.dropout));
  }
  return check_dropout(options.dropout, options.dropout_seed, &settings->dropout);
}

}  // namespace fovea
