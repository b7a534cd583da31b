// Softmax: over the last axis it is that of rows; over another, columns are independent, and neighbours make a task, so
// wide that whole lines of memory are read. Nothing is allocated.
#include "ops/rowwise/softmax.hpp"

#include <algorithm>

#include "ops/rowwise/check.hpp"
#include "ops/rowwise/masked_softmax.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 32768;  // 256 kB read and written: stays in a core's L2
constexpr int64_t least_columns = 64;   // two or four lines

struct Columns {
  RowSpace outer;         // the axes that are neither the softmax's nor in a run
  int64_t run;            // columns that lie side by side
  int64_t blocks, width;  // of a run, and columns of a block
  SoftmaxColumns all;     // what is common to all tasks
};

Columns make_columns(const fovea_tensor &x, const fovea_tensor &out, int axis, bool log) {
  Columns columns = {.outer = {},
                     .run = 1,
                     .blocks = 0,
                     .width = 0,
                     .all = {.x = x.data,
                             .x_type = static_cast<Dtype>(x.dtype),
                             .x_stride = x.strides[axis],
                             .out = out.data,
                             .out_type = static_cast<Dtype>(out.dtype),
                             .out_stride = out.strides[axis],
                             .key_len = x.shape[axis],
                             .columns = 0,
                             .log = log}};
  int first = x.rank;  // of the axes that make a run
  for (; first > axis + 1; --first) {
    const int last = first - 1;
    const bool follows = x.strides[last] == columns.run && out.strides[last] == columns.run;
    if (x.shape[last] != 1 && !follows) break;
    columns.run *= x.shape[last];
  }
  for (int other = 0; other < first; ++other) {
    if (other != axis) columns.outer.add_axis(x.shape[other], x.strides[other], out.strides[other]);
  }
  const int64_t wanted = task_floats / columns.all.key_len / least_columns * least_columns;
  columns.width = std::min(std::max(wanted, least_columns), columns.run);
  columns.blocks = ceil_div(columns.run, columns.width);
  return columns;
}

void run(const Context &context, const Columns &columns) {
  // A cycle for each element.
  const int64_t elements = columns.outer.count * columns.run * columns.all.key_len;
  const int workers = workers_for(context, static_cast<double>(elements));
  run_tasks(context, workers, columns.outer.count * columns.blocks, [&](int, int64_t task) {
    const RowCursor outer(columns.outer, task / columns.blocks);
    const int64_t first = task % columns.blocks * columns.width;
    SoftmaxColumns block = columns.all;
    block.x = element_at(block.x, block.x_type, outer.x_offset() + first);
    block.out = element_at(block.out, block.out_type, outer.out_offset() + first);
    block.columns = std::min(columns.width, columns.run - first);
    context.kernels->rowwise->softmax_columns(block);
  });
}

}  // namespace

Status softmax(const Context *given, const TensorArgument &x, int32_t axis, const TensorArgument &out, bool log) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_softmax_over_axis(x, axis, out));
  if (element_count(*x) == 0) return FOVEA_OK;
  const int from_first = axis < 0 ? x->rank + axis : axis;
  if (from_first == x->rank - 1) {
    softmax_last_axis(*context, *x, *out, log);
  } else {
    run(*context, make_columns(*x, *out, from_first, log));
  }
  return FOVEA_OK;
}

}  // namespace fovea
