// Rotary position embedding. For a block of positions the sines and cosines are made once in scratch memory, and turn
// the rows of all heads, and of all batch entries unless each has positions of its own.
#include "ops/positions/rotary.hpp"

#include <cinttypes>
#include <cmath>

#include "ops/positions/rows.hpp"
#include "ops/tensors/check.hpp"

namespace fovea {
namespace {

struct Call {
  const Context *context;
  fovea_rotary_options options;  // without its tensor
  double base, position_scale;
  bool has_positions;
  fovea_tensor positions;
  const float *x;
  float *out;
  int64_t dim, rotary_dim;
  bool interleaved, stream;
  Distance distance;
  int workers;
  int64_t width, table_stride;  // floats of a position's table: two runs of `width`

  int64_t position(int64_t group, int64_t row) const {
    if (!has_positions) return options.offset + row;
    const bool per_batch = positions.rank == 2;
    return integer_at(
        positions, per_batch ? group * positions.strides[0] + row * positions.strides[1] : row * positions.strides[0]);
  }
};

Status check_options(const fovea_rotary_options *given, Call *call) {
  FOVEA_CHECK(read_options("options", given, &call->options));
  const fovea_rotary_options &options = call->options;
  if ((options.flags & ~uint32_t{FOVEA_ROTARY_INTERLEAVED | FOVEA_ROTARY_INVERSE}) != 0) {
    return fail(FOVEA_BAD_OPTION, "options.flags is 0x%" PRIx32 ", expected FOVEA_ROTARY_INTERLEAVED and _INVERSE only",
                options.flags);
  }
  if (options.reserved != 0) {
    return fail(FOVEA_BAD_OPTION, "options.reserved is %d, expected 0", options.reserved);
  }
  FOVEA_CHECK(check_base(options.base, &call->base));
  call->position_scale = options.position_scale == 0.0f ? 1.0 : static_cast<double>(options.position_scale);
  if (!std::isfinite(call->position_scale)) {
    return fail(FOVEA_BAD_VALUE, "options.position_scale is %g, expected a finite number", call->position_scale);
  }
  call->interleaved = (options.flags & FOVEA_ROTARY_INTERLEAVED) != 0;
  return check_offset(options.offset);
}

Status check_rotary_dim(const fovea_tensor &x, Call *call) {
  call->dim = x.shape[x.rank - 1];
  call->rotary_dim = call->options.rotary_dim == 0 ? call->dim : call->options.rotary_dim;
  if (call->options.rotary_dim == 0 && call->dim % 2 != 0) {
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
  if (positions.dtype != FOVEA_I32 && positions.dtype != FOVEA_I64) {
    return fail(FOVEA_BAD_DTYPE, "positions.dtype is %d, expected %d (I32) or %d (I64)", positions.dtype, FOVEA_I32,
                FOVEA_I64);
  }
  const TensorRule rule = {
      .name = "positions", .dtype = static_cast<Dtype>(positions.dtype), .max_rank = 2, .contiguous_last = false};
  FOVEA_CHECK(check_tensor(&positions, rule));
  const int length_axis = positions.rank - 1;
  if (positions.rank == 2) {
    const int64_t batch = x.rank == 2 ? 1 : x.shape[0];
    FOVEA_CHECK(check_size(positions, "positions", 0, batch, "the batch size"));
  }
  return check_size(positions, "positions", length_axis, x.shape[x.rank - 2], "x's number of rows");
}

// Every position is in range, and every angle: those past 2^34 have no digits left in float64 that would tell where on
// the circle they are.
Status check_position_values(const Call &call, int64_t length) {
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

Status check_arguments(const fovea_tensor *x, const fovea_tensor *out, Call *call) {
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

void rotate_block(const Call &call, const PositionRows &rows, const PositionBlock &block, const double *frequencies,
                  float *table) {
  double positions[most_positions_per_block];
  for (int64_t i = 0; i < block.count; ++i) {
    positions[i] = call.position_scale * static_cast<double>(call.position(block.group, block.first + i));
  }
  call.context->kernels->rowwise->rotary_table({.frequencies = frequencies,
                                                .positions = positions,
                                                .count = block.count,
                                                .pairs = call.rotary_dim / 2,
                                                .interleaved = call.interleaved,
                                                .width = call.width,
                                                .table = table});
  rows.for_each_run(block, [&](const RowRun &run) {
    call.context->kernels->rowwise->rotate_rows({.x = call.x + run.x_offset,
                                                 .x_stride = run.x_stride,
                                                 .out = call.out + run.out_offset,
                                                 .out_stride = run.out_stride,
                                                 .table = table + run.position * call.table_stride,
                                                 .table_stride = run.position_step * call.table_stride,
                                                 .width = call.width,
                                                 .count = run.count,
                                                 .head_dim = call.dim,
                                                 .rotary_dim = call.rotary_dim,
                                                 .interleaved = call.interleaved,
                                                 .distance = call.distance,
                                                 .stream = call.stream});
  });
}

Status run(const Call &call, const PositionRows &rows) {
  const int64_t lanes = call.context->kernels->rowwise->lanes;
  const int64_t pairs = call.rotary_dim / 2;
  const int64_t block_length = rows.block_length(call.table_stride, call.workers);
  const PositionScratch scratch(*call.context, pairs, block_length * call.table_stride, call.workers);
  if (scratch.failed()) return scratch.failure();
  double *frequencies = scratch.frequencies();
  fill_frequencies(call.base, call.rotary_dim, pairs, lanes, frequencies);
  if ((call.options.flags & FOVEA_ROTARY_INVERSE) != 0) {
    for (int64_t j = 0; j < pairs; ++j) frequencies[j] = -frequencies[j];
  }
  rows.run_blocks(*call.context, call.workers, block_length, [&](int worker, const PositionBlock &block) {
    rotate_block(call, rows, block, frequencies, scratch.table(worker));
  });
  return FOVEA_OK;
}

}  // namespace

Status rotary(const Context *given, const TensorArgument &x, const TensorArgument &out,
              const fovea_rotary_options *options) {
  Call call = {};
  FOVEA_CHECK(resolve_context(given, &call.context));
  FOVEA_CHECK(check_options(options, &call));
  FOVEA_CHECK(check_arguments(x, out, &call));
  if (element_count(*x) == 0) return FOVEA_OK;
  call.x = static_cast<const float *>(x->data);
  call.out = static_cast<float *>(out->data);
  call.stream = large_output(*x, *out);
  call.width = round_up(call.rotary_dim / 2, call.context->kernels->rowwise->lanes) * (call.interleaved ? 2 : 1);
  call.table_stride = 2 * call.width;
  const PositionRows rows(*x, *out, call.has_positions && call.positions.rank == 2);
  call.workers = workers_for(*call.context, rows.elements());
  call.distance = rows.distance(call.workers);
  return run(call, rows);
}

}  // namespace fovea
