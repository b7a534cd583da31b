// Masked softmax. Rows are independent; consecutive ones make a task. Nothing is allocated.
#include "ops/rowwise/masked_softmax.hpp"

#include <algorithm>

#include "ops/rowwise/check.hpp"
#include "ops/rowwise/valid_len.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 32768;  // 256 kB read and written: stays in a core's L2
constexpr int64_t most_rows_per_task = 256;
constexpr int64_t streamed_bytes = 64 << 20;  // an output of this size would not be found in a cache later

struct Call {
  const Context *context;
  fovea_tensor x, out;
  const fovea_tensor *valid_lens;  // null: all keys
  bool log;                        // the logarithm of it
  EmptyRows empty_rows;
  RowSpace rows;
  int64_t key_len;
};

// The call for tensors that have elements.
Call make_call(const Context *context, const fovea_tensor &x, const fovea_tensor &out) {
  Call call = {};
  call.context = context;
  call.x = x;
  call.out = out;
  call.key_len = x.shape[x.rank - 1];
  for (int axis = 0; axis + 1 < x.rank; ++axis) call.rows.add_axis(x.shape[axis], x.strides[axis], out.strides[axis]);
  return call;
}

void run(const Call &call) {
  const int64_t elements = call.rows.count * call.key_len;
  const int64_t rows_per_task = std::clamp<int64_t>(task_floats / call.key_len, 1, most_rows_per_task);
  const auto out_bytes = elements * static_cast<int64_t>(dtype_size(static_cast<Dtype>(call.out.dtype)));
  const bool stream = call.x.data != call.out.data && out_bytes >= streamed_bytes;
  // A cycle for each element.
  const int workers = workers_for(*call.context, static_cast<double>(elements));
  run_tasks(*call.context, workers, ceil_div(call.rows.count, rows_per_task), [&](int, int64_t task) {
    SoftmaxRow rows[most_rows_per_task];
    // Copies, which the compiler knows not to change while rows are listed.
    const auto x_type = static_cast<Dtype>(call.x.dtype);
    const auto out_type = static_cast<Dtype>(call.out.dtype);
    const void *const x = call.x.data;
    void *const out = call.out.data;
    const int64_t count = std::min(rows_per_task, call.rows.count - task * rows_per_task);
    RowCursor row(call.rows, task * rows_per_task);
    for (int64_t i = 0; i < count; ++i, row.next()) {
      rows[i] = {.x = element_at(x, x_type, row.x_offset()),
                 .out = element_at(out, out_type, row.out_offset()),
                 .valid_len = valid_len_of(call.valid_lens, row, call.rows.axes, call.key_len)};
    }
    const RowwiseKernels &kernels = *call.context->kernels->rowwise;
    const auto kernel = call.log ? kernels.log_softmax_rows : kernels.softmax_rows;
    kernel({.row = rows,
            .x_type = x_type,
            .out_type = out_type,
            .count = count,
            .key_len = call.key_len,
            .empty_rows = call.empty_rows,
            .stream = stream});
  });
}

}  // namespace

Status masked_softmax(const Context *given, const TensorArgument &x, const TensorArgument &valid_lens,
                      const TensorArgument &out, const fovea_masked_softmax_options *options) {
  const Context *context = nullptr;
  EmptyRows empty_rows = EmptyRows::zero;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_softmax_options(options, &empty_rows));
  FOVEA_CHECK(check_softmax_tensors(x, valid_lens, out));
  if (element_count(*x) == 0) return FOVEA_OK;
  Call call = make_call(context, *x, *out);
  call.valid_lens = valid_lens;
  call.empty_rows = empty_rows;
  run(call);
  return FOVEA_OK;
}

void softmax_last_axis(const Context &context, const fovea_tensor &x, const fovea_tensor &out, bool log) {
  Call call = make_call(&context, x, out);
  call.log = log;
  call.empty_rows = EmptyRows::nan;
  run(call);
}

}  // namespace fovea
