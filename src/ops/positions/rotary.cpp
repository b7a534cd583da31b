// Rotary position embedding. For a block of positions the sines and cosines are made once in scratch memory, and turn
// the rows of all heads, and of all batch entries unless each has positions of its own.
#include "ops/positions/rotary.hpp"

#include "ops/positions/rotary_check.hpp"
#include "ops/positions/rotary_tables.hpp"
#include "ops/positions/rows.hpp"
#include "runtime/workspace.hpp"

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
};

void rotate_block(const Call &call, const PositionRows &rows, const PositionBlock &block, const float *table) {
  rows.for_each_run(block, [&](const PositionRun &run) {
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

// What has been checked and has elements.
void set_call(const TensorArgument &x, const TensorArgument &out, Call *call) {
  call->x = x->data;
  call->x_type = static_cast<Dtype>(x->dtype);
  call->out = out->data;
  call->out_type = static_cast<Dtype>(out->dtype);
  call->stream = large_output(*x, *out);
  call->width = round_up(call->rotary_dim / 2, call->context->kernels->rowwise->lanes) * (call->interleaved ? 2 : 1);
  call->table_stride = 2 * call->width;
}

// How it is carried out.
struct Plan {
  const PositionRows rows;
  const int workers;
  const int64_t block_length;
  RotaryTables tables;

  Plan(const TensorArgument &x, const TensorArgument &out, const Call &call)
      : rows(*x, *out, call.grouped),
        workers(rows.workers(*call.context)),
        block_length(rows.block_length(call.table_stride, workers)),
        tables(call, *call.context, call.width, block_length, workers) {}

  void run(Call *call, void *memory) {
    call->workers = workers;
    call->distance = rows.distance(workers);
    tables.fill(memory);
    rows.run_blocks(*call->context, workers, block_length, [&](int worker, const PositionBlock &block) {
      rotate_block(*call, rows, block, tables.make(worker, block.group, block.first, block.count));
    });
  }
};

Status prepare(const Context *given, const TensorArgument &x, const TensorArgument &out,
               const fovea_rotary_options *options, Call *call) {
  FOVEA_CHECK(resolve_context(given, &call->context));
  FOVEA_CHECK(check_rotary(options, x, out, call));
  set_call(x, out, call);
  return FOVEA_OK;
}

}  // namespace

Status rotary(const Context *given, const TensorArgument &x, const TensorArgument &out,
              const fovea_rotary_options *options) {
  Call call = {};
  FOVEA_CHECK(prepare(given, x, out, options, &call));
  if (element_count(*x) == 0) return FOVEA_OK;
  Plan plan(x, out, call);
  const Workspace workspace(*call.context, plan.tables.layout());
  FOVEA_CHECK(workspace.status());
  plan.run(&call, workspace.data());
  return FOVEA_OK;
}

Status rotary_in(void *memory, size_t size, const Context &context, const TensorArgument &x, const TensorArgument &out,
                 const fovea_rotary_options *options) {
  Call call = {};
  FOVEA_CHECK(prepare(&context, x, out, options, &call));
  if (element_count(*x) == 0) return FOVEA_OK;
  Plan plan(x, out, call);
  if (plan.tables.layout().size() > size) return rotary(&context, x, out, options);
  plan.run(&call, memory);
  return FOVEA_OK;
}

size_t most_rotary_memory(const Context &context, int64_t dim) {
  const int64_t lanes = context.kernels->rowwise->lanes, width = round_up(dim / 2, lanes) * 2;
  MemoryLayout layout;
  layout.add<double>(width);
  layout.add<int32_t>(dim);
  const int workers = worker_limit(context);
  layout.add_copies<double>(workers, width);
  layout.add_copies<float>(workers, dim);
  layout.add_copies<float>(workers, max_of(block_table_floats, 2 * width));
  return layout.size();
}

}  // namespace fovea
