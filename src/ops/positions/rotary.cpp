// Rotary position embedding. For a block of positions the sines and cosines are made once in scratch memory, and turn
// the rows of all heads, and of all batch entries unless each has positions of its own.
#include "ops/positions/rotary.hpp"

#include "ops/positions/check.hpp"
#include "ops/positions/rows.hpp"

namespace fovea {
namespace {

struct Call : RotaryArguments {
  const Context *context;
  const void *x;
  Dtype x_type;
  void *out;
  Dtype out_type;
  bool stream;
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
    call.context->kernels->rowwise->rotate_rows({.x = element_at(call.x, call.x_type, run.x_offset),
                                                 .x_type = call.x_type,
                                                 .x_stride = run.x_stride,
                                                 .out = element_at(call.out, call.out_type, run.out_offset),
                                                 .out_type = call.out_type,
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
  FOVEA_CHECK(scratch.status());
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
  FOVEA_CHECK(check_rotary(options, x, out, &call));
  if (element_count(*x) == 0) return FOVEA_OK;
  call.x = x->data;
  call.x_type = static_cast<Dtype>(x->dtype);
  call.out = out->data;
  call.out_type = static_cast<Dtype>(out->dtype);
  call.stream = large_output(*x, *out);
  call.width = round_up(call.rotary_dim / 2, call.context->kernels->rowwise->lanes) * (call.interleaved ? 2 : 1);
  call.table_stride = 2 * call.width;
  const PositionRows rows(*x, *out, call.has_positions && call.positions.rank == 2);
  call.workers = rows.workers(*call.context);
  call.distance = rows.distance(call.workers);
  return run(call, rows);
}

}  // namespace fovea
