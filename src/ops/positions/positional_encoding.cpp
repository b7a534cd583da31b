// The sinusoidal encoding. Blocks of positions are independent. A block's encoding is made once in scratch memory and
// added to every batch entry; where there is but one entry, it is added as it is made, or written where it is wanted.
#include "ops/positions/positional_encoding.hpp"

#include <algorithm>

#include "ops/positions/check.hpp"
#include "ops/positions/rows.hpp"

namespace fovea {
namespace {

struct Call {
  const Context *context;
  EncodingSettings settings;
  const void *x;  // null: the encoding alone is wanted
  Dtype x_type;
  void *out;
  Dtype out_type;
  int64_t dim;
  Distance distance;
  bool stream;
};

// The encoding of a block; x and out are set for each of its runs.
EncodingRows encoding_of(const Call &call, const PositionBlock &block, const double *frequencies,
                         double (&positions)[most_positions_per_block]) {
  for (int64_t i = 0; i < block.count; ++i) {
    positions[i] = static_cast<double>(call.settings.offset + block.first + i);
  }
  EncodingRows encoding = {};
  encoding.frequencies = frequencies;
  encoding.positions = positions;
  encoding.count = block.count;
  encoding.dim = call.dim;
  return encoding;
}

// Every encoding is needed once.
void encode_block(const Call &call, const PositionRows &rows, const PositionBlock &block, const double *frequencies) {
  double positions[most_positions_per_block];
  EncodingRows encoding = encoding_of(call, block, frequencies, positions);
  encoding.stream = call.stream;
  rows.for_each_run(block, [&](const PositionRun &run) {
    encoding.x = call.x == nullptr ? nullptr : element_at(call.x, call.x_type, run.x_offset);
    encoding.x_type = call.x_type;
    encoding.x_stride = run.x_stride;
    encoding.out = element_at(call.out, call.out_type, run.out_offset);
    encoding.out_type = call.out_type;
    encoding.out_stride = run.out_stride;
    call.context->kernels->rowwise->encode_rows(encoding);
  });
}

// Makes the encoding of the block in `table`, and adds it to all entries; where dropout is wanted alone, -0, which
// changes no bit of what it is added to.
void add_block(const Call &call, const PositionRows &rows, const PositionBlock &block, const double *frequencies,
               float *table) {
  double positions[most_positions_per_block];
  EncodingRows encoding = encoding_of(call, block, frequencies, positions);
  encoding.out = table;
  encoding.out_type = Dtype::f32;
  encoding.out_stride = call.dim;
  if (call.settings.dropout_alone) {
    std::fill(table, table + block.count * call.dim, -0.0f);
  } else {
    call.context->kernels->rowwise->encode_rows(encoding);
  }
  rows.for_each_run(block, [&](const PositionRun &run) {
    call.context->kernels->rowwise->add_rows(
        {.x = element_at(call.x, call.x_type, run.x_offset),
         .x_type = call.x_type,
         .x_stride = run.x_stride,
         .encoding = table + run.position * call.dim,
         .encoding_stride = run.position_step * call.dim,
         .out = element_at(call.out, call.out_type, run.out_offset),
         .out_type = call.out_type,
         .out_stride = run.out_stride,
         .count = run.count,
         .dim = call.dim,
         .distance = call.distance,
         .stream = call.stream,
         .dropout = call.settings.dropout.threshold == 0 ? nullptr : &call.settings.dropout,
         .batch = run.entry,
         .batch_step = run.entry_step,
         .query = block.first + run.position,
         .query_step = run.position_step});
  });
}

Status run(Call call, const PositionRows &rows) {
  const int workers = rows.workers(*call.context);
  call.distance = rows.distance(workers);
  const bool shared = rows.entries() > 1 || call.settings.dropout.threshold != 0 || call.settings.dropout_alone;
  const int64_t block_length = rows.block_length(shared ? call.dim : 1, workers);
  const int64_t pairs = ceil_div(call.dim, 2);
  const PositionScratch scratch(*call.context, pairs, shared ? block_length * call.dim : 0, workers);
  FOVEA_CHECK(scratch.status());
  fill_frequencies(call.settings.base, call.dim, pairs, call.context->kernels->rowwise->lanes, scratch.frequencies());
  rows.run_blocks(*call.context, workers, block_length, [&](int worker, const PositionBlock &block) {
    if (shared) {
      add_block(call, rows, block, scratch.frequencies(), scratch.table(worker));
    } else {
      encode_block(call, rows, block, scratch.frequencies());
    }
  });
  return FOVEA_OK;
}

}  // namespace

Status positional_encoding(const Context *given, const TensorArgument &out,
                           const fovea_positional_encoding_options *options) {
  Call call = {};
  FOVEA_CHECK(resolve_context(given, &call.context));
  FOVEA_CHECK(check_encoding(options, false, &call.settings));
  const TensorRule rule = {.name = "out", .min_rank = 2, .max_rank = 2, .output = true, .narrow = true};
  FOVEA_CHECK(check_tensor(out, rule));
  if (element_count(*out) == 0) return FOVEA_OK;
  call.out = out->data;
  call.out_type = static_cast<Dtype>(out->dtype);
  call.dim = out->shape[1];
  return run(call, PositionRows(*out, *out, false));
}

Status add_positional_encoding(const Context *given, const TensorArgument &x, const TensorArgument &out,
                               const fovea_positional_encoding_options *options) {
  Call call = {};
  FOVEA_CHECK(resolve_context(given, &call.context));
  FOVEA_CHECK(check_encoding(options, true, &call.settings));
  FOVEA_CHECK(check_position_tensors(x, out));
  if (element_count(*x) == 0) return FOVEA_OK;
  call.x = x->data;
  call.x_type = static_cast<Dtype>(x->dtype);
  call.out = out->data;
  call.out_type = static_cast<Dtype>(out->dtype);
  call.dim = x->shape[x->rank - 1];
  call.stream = large_output(*x, *out);
  return run(call, PositionRows(*x, *out, false));
}

}  // namespace fovea
