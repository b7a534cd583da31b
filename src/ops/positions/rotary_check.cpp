#include "ops/positions/rotary_check.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "ops/positions/check.hpp"

namespace fovea {
namespace {

constexpr double largest_angle =
    0x1p34;  // past it float64 has no digits left that would tell where on the circle it is

// The options' tensors, and whether there are any: most calls of a decoder have none, and are over in a microsecond.
bool take_tensors(RotaryArguments *call) {
  const fovea_rotary_options &options = call->options;
  bool any = false;
  const auto take = [&](const fovea_tensor *given, TensorArgument *taken) {
    if (given == nullptr) return;
    *taken = given;
    any = true;
  };
  take(options.positions, &call->positions);
  take(options.frequencies, &call->frequencies);
  take(options.sections, &call->sections);
  take(options.cosines, &call->cosines);
  take(options.sines, &call->sines);
  return any;
}

Status check_numbers(RotaryArguments *call) {
  const fovea_rotary_options &options = call->options;
  FOVEA_CHECK(check_flags(options.flags, FOVEA_ROTARY_INTERLEAVED | FOVEA_ROTARY_INVERSE | FOVEA_ROTARY_BASE_GIVEN |
                                             FOVEA_ROTARY_POSITION_SCALE_GIVEN | FOVEA_ROTARY_DIM_GIVEN |
                                             FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN));
  FOVEA_CHECK(check_reserved(options.reserved));
  if (options.reserved_tail != 0) {
    return fail(FOVEA_BAD_OPTION, "options.reserved_tail is %d, expected 0", options.reserved_tail);
  }
  FOVEA_CHECK(check_base(options.base, options.flags, FOVEA_ROTARY_BASE_GIVEN, &call->base));
  const bool usual_scale = is_default(options.position_scale, options.flags, FOVEA_ROTARY_POSITION_SCALE_GIVEN);
  call->position_scale = usual_scale ? 1.0 : static_cast<double>(options.position_scale);
  if (!std::isfinite(call->position_scale)) {
    return fail(FOVEA_BAD_VALUE, "options.position_scale is %g, expected a finite number", call->position_scale);
  }
  const bool usual_factor = is_default(options.attention_factor, options.flags, FOVEA_ROTARY_ATTENTION_FACTOR_GIVEN);
  call->attention_factor = usual_factor ? 1.0f : options.attention_factor;
  if (!std::isfinite(call->attention_factor)) {
    return fail(FOVEA_BAD_VALUE, "options.attention_factor is %g, expected a finite number",
                static_cast<double>(call->attention_factor));
  }
  call->interleaved = (options.flags & FOVEA_ROTARY_INTERLEAVED) != 0;
  call->inverse = (options.flags & FOVEA_ROTARY_INVERSE) != 0;
  return check_offset(options.offset);
}

Status refuse_beside(const char *member, double value, const char *other) {
  return fail(FOVEA_BAD_VALUE, "options.%s is %g, expected none with options.%s", member, value, other);
}

// One way to turn, and one to say where rows stand.
Status check_one_way(const RotaryArguments &call) {
  const fovea_rotary_options &options = call.options;
  const bool table = call.cosines != nullptr;
  if (table != (call.sines != nullptr)) {
    const char *const names[] = {"cosines", "sines"};
    return fail(FOVEA_NULL_POINTER, "options.%s is NULL, expected a tensor as options.%s is given", names[table],
                names[!table]);
  }
  if (table && call.frequencies != nullptr) {
    return fail(FOVEA_BAD_OPTION, "options.frequencies is set, expected NULL with options.cosines");
  }
  const char *const given = table ? "cosines" : call.frequencies != nullptr ? "frequencies" : nullptr;
  if (given != nullptr && !is_default(options.base, options.flags, FOVEA_ROTARY_BASE_GIVEN)) {
    return refuse_beside("base", call.base, given);
  }
  if (table && !is_default(options.position_scale, options.flags, FOVEA_ROTARY_POSITION_SCALE_GIVEN)) {
    return refuse_beside("position_scale", call.position_scale, given);
  }
  if (call.sections != nullptr && call.positions == nullptr) {
    return fail(FOVEA_NULL_POINTER, "options.positions is NULL, expected [S,L] or [S,B,L] with options.sections");
  }
  if (!call.rows_given()) return FOVEA_OK;
  if (call.positions != nullptr) {
    return fail(FOVEA_BAD_OPTION, "options.positions is set, expected NULL with options.cosines of rank 3");
  }
  if (options.offset == 0) return FOVEA_OK;
  return fail(FOVEA_BAD_VALUE, "options.offset is %" PRId64 ", expected 0 with options.cosines of rank 3",
              options.offset);
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

int64_t batch_of(const fovea_tensor &x) { return x.rank == 2 ? 1 : x.shape[0]; }

Status check_positions_tensor(const fovea_tensor &x, RotaryArguments *call) {
  const fovea_tensor &positions = *call->positions;
  const int sections = call->sections == nullptr ? 0 : 1;  // axes of
  FOVEA_CHECK(check_integer_tensor(positions, "positions", 2 + sections, true));
  if (positions.rank <= sections) {
    return fail(FOVEA_BAD_RANK, "positions has rank %d, expected 2 or 3 with options.sections", positions.rank);
  }
  const int row_axis = positions.rank - 1;
  call->section_count = sections == 0 ? 1 : positions.shape[0];
  call->position_strides = {sections == 0 ? 0 : positions.strides[0], 0, positions.strides[row_axis]};
  if (row_axis > sections) {
    FOVEA_CHECK(check_size(positions, "positions", sections, batch_of(x), "the batch size"));
    call->position_strides.batch = positions.strides[sections];
    call->grouped = true;
  }
  return check_size(positions, "positions", row_axis, x.shape[x.rank - 2], "x's number of rows");
}

// A number for each pair.
Status check_pairs(const fovea_tensor &tensor, const char *name, const RotaryArguments &call) {
  return check_size(tensor, name, 0, call.rotary_dim / 2, "rotary_dim / 2");
}

Status check_table(const fovea_tensor &x, RotaryArguments *call) {
  const fovea_tensor &cosines = *call->cosines, &sines = *call->sines;
  FOVEA_CHECK(check_tensor(&cosines, {.name = "cosines", .min_rank = 2, .max_rank = 3, .narrow = true}));
  FOVEA_CHECK(
      check_tensor(&sines, {.name = "sines", .min_rank = cosines.rank, .max_rank = cosines.rank, .narrow = true}));
  const int last = cosines.rank - 1;
  FOVEA_CHECK(check_size(cosines, "cosines", last, call->rotary_dim / 2, "rotary_dim / 2"));
  if (call->rows_given()) {
    FOVEA_CHECK(check_size(cosines, "cosines", 0, batch_of(x), "the batch size"));
    FOVEA_CHECK(check_size(cosines, "cosines", 1, x.shape[x.rank - 2], "x's number of rows"));
    call->grouped = true;
  }
  for (int axis = 0; axis <= last; ++axis) {
    FOVEA_CHECK(check_size(sines, "sines", axis, cosines.shape[axis], "cosines' size"));
  }
  return FOVEA_OK;
}

Status check_tensors(const fovea_tensor &x, RotaryArguments *call) {
  if (call->positions != nullptr) {
    FOVEA_CHECK(check_positions_tensor(x, call));
  }
  if (call->sections != nullptr) {
    FOVEA_CHECK(check_integer_tensor(*call->sections, "sections", 1, true));
    FOVEA_CHECK(check_pairs(*call->sections, "sections", *call));
  }
  if (call->frequencies != nullptr) {
    const TensorRule rule = {.name = "frequencies", .max_rank = 1, .contiguous_last = false};
    FOVEA_CHECK(check_tensor(call->frequencies, rule));
    FOVEA_CHECK(check_pairs(*call->frequencies, "frequencies", *call));
  }
  return call->cosines == nullptr ? FOVEA_OK : check_table(x, call);
}

Status check_overlaps_with(const fovea_tensor *out, const RotaryArguments &call) {
  return check_overlaps({{"out", out}}, {{"positions", call.positions},
                                         {"frequencies", call.frequencies},
                                         {"sections", call.sections},
                                         {"cosines", call.cosines},
                                         {"sines", call.sines}});
}

// Every position is in range; the largest of them.
Status check_position_values(const RotaryArguments &call, int64_t length, int64_t *largest) {
  const bool table = call.cosines != nullptr;
  const int64_t most = table ? call.cosines->shape[0] - 1 : largest_length;
  if (call.positions == nullptr) {
    *largest = call.options.offset + length - 1;
    if (!table || *largest <= most) return FOVEA_OK;
    return fail(FOVEA_BAD_SHAPE, "cosines.shape[0] is %" PRId64 ", expected at least %" PRId64 " (offset + x's rows)",
                call.cosines->shape[0], *largest + 1);
  }
  const fovea_tensor &positions = *call.positions;
  if (call.sections == nullptr) return check_integers(positions, "positions", most, "", largest);
  fovea_tensor section = positions;
  section.rank = positions.rank - 1;
  std::copy(positions.shape + 1, positions.shape + positions.rank, section.shape);
  std::copy(positions.strides + 1, positions.strides + positions.rank, section.strides);
  const int64_t distinct = positions.strides[0] == 0 ? 1 : positions.shape[0];
  for (int64_t s = 0; s < distinct; ++s) {
    char name[48];
    std::snprintf(name, sizeof name, "positions[%" PRId64 "]", s);
    const int64_t from = s * positions.strides[0];
    section.data = positions.dtype == FOVEA_I32 ? static_cast<void *>(static_cast<int32_t *>(positions.data) + from)
                                                : static_cast<int64_t *>(positions.data) + from;
    FOVEA_CHECK(check_integers(section, name, most, "", largest));
  }
  return FOVEA_OK;
}

// Every angle is in range.
Status check_angles(const RotaryArguments &call, int64_t largest_position) {
  const double reach = std::fabs(call.position_scale) * static_cast<double>(largest_position);
  if (call.frequencies == nullptr) {
    if (reach <= largest_angle) return FOVEA_OK;
    return fail(FOVEA_BAD_VALUE,
                "options.position_scale is %g, expected at most 2^34 when multiplied by position %" PRId64,
                call.position_scale, largest_position);
  }
  const fovea_tensor &frequencies = *call.frequencies;
  const int64_t distinct =
      frequencies.strides[0] == 0 ? std::min<int64_t>(1, frequencies.shape[0]) : frequencies.shape[0];
  for (int64_t j = 0; j < distinct; ++j) {
    const double frequency = static_cast<const float *>(frequencies.data)[j * frequencies.strides[0]];
    if (!std::isfinite(frequency)) {
      return fail(FOVEA_BAD_VALUE, "frequencies[%" PRId64 "] is %g, expected a finite number", j, frequency);
    }
    if (reach * std::fabs(frequency) <= largest_angle) continue;
    return fail(FOVEA_BAD_VALUE,
                "frequencies[%" PRId64
                "] is %g, expected at most 2^34 when multiplied by position_scale %g and position "
                "%" PRId64,
                j, frequency, call.position_scale, largest_position);
  }
  return FOVEA_OK;
}

Status check_values(const RotaryArguments &call, int64_t length) {
  if (call.sections != nullptr) {
    FOVEA_CHECK(check_integers(*call.sections, "sections", call.section_count - 1, "", nullptr));
  }
  if (call.rows_given()) return FOVEA_OK;
  int64_t largest = 0;
  FOVEA_CHECK(check_position_values(call, length, &largest));
  return call.cosines != nullptr ? FOVEA_OK : check_angles(call, largest);
}

}  // namespace

Status check_rotary_options(const fovea_rotary_options *options, const fovea_tensor &x, RotaryArguments *call) {
  FOVEA_CHECK(read_options("options", options, &call->options));
  const bool tensors_given = take_tensors(call);
  FOVEA_CHECK(check_numbers(call));
  if (tensors_given) {
    FOVEA_CHECK(check_one_way(*call));
  }
  FOVEA_CHECK(check_rotary_dim(x, call));
  return tensors_given ? check_tensors(x, call) : FOVEA_OK;
}

Status check_rotary(const fovea_rotary_options *options, const fovea_tensor *x, const fovea_tensor *out,
                    RotaryArguments *call) {
  FOVEA_CHECK(check_position_tensors(x, out));
  FOVEA_CHECK(check_rotary_options(options, *x, call));
  FOVEA_CHECK(check_overlaps_with(out, *call));
  return element_count(*x) == 0 ? FOVEA_OK : check_values(*call, x->shape[x->rank - 2]);
}

}  // namespace fovea
