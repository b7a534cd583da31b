// Layer normalisation. Rows are independent; consecutive ones make a task. Nothing is allocated.
#include "ops/rowwise/layer_norm.hpp"

#include <algorithm>
#include <cmath>

#include "ops/rowwise/check.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 32768;  // with a residual 384 kB read and written: stays in a core's L2
constexpr int64_t most_rows_per_task = 256;
constexpr int64_t most_rows_listed_ahead = 16;  // of the next task: this one's last rows ask for them
constexpr int64_t cached_bytes = 16 << 20;      // x, residual and out of this size are thought to lie in memory
constexpr int64_t streamed_bytes = 32 << 20;    // an output of this size would not be found in a cache later

const void *data_of(const fovea_tensor *tensor) { return tensor == nullptr ? nullptr : tensor->data; }
Dtype type_of(const fovea_tensor *tensor) { return tensor == nullptr ? Dtype::f32 : static_cast<Dtype>(tensor->dtype); }

struct Call {
  const Context *context;
  RowSpace rows;           // of x and out
  RowSpace residual_rows;  // of the residual, where there is one
  const void *x, *residual;
  void *out;
  NormRows all;  // what is common to all tasks
};

NormTraffic traffic_of(const Call &call) {
  const auto bytes = [&](Dtype type) {
    return call.rows.count * call.all.dim * static_cast<int64_t>(dtype_size(type));
  };
  const auto &types = call.all.types;
  const int64_t out = bytes(types.out);
  if (out >= streamed_bytes && call.out != call.x && call.out != call.residual) return NormTraffic::past_caches;
  const int64_t read = bytes(types.x) + (call.residual == nullptr ? 0 : bytes(types.residual));
  return read + out >= cached_bytes ? NormTraffic::from_memory : NormTraffic::cached;
}

Call make_call(const Context &context, const NormOperands &given, double epsilon) {
  Call call = {.context = &context,
               .rows = {},
               .residual_rows = {},
               .x = given.x->data,
               .residual = data_of(given.residual),
               .out = given.out->data,
               .all = {.row = nullptr,
                       .count = 0,
                       .listed = 0,
                       .dim = given.x->shape[given.x->rank - 1],
                       .weight = data_of(given.weight),
                       .bias = data_of(given.bias),
                       .types = {.x = type_of(given.x),
                                 .residual = type_of(given.residual),
                                 .out = type_of(given.out),
                                 .weight = type_of(given.weight),
                                 .bias = type_of(given.bias)},
                       .epsilon = epsilon,
                       .traffic = NormTraffic::cached}};
  for (int axis = 0; axis + 1 < given.x->rank; ++axis) {
    call.rows.add_axis(given.x->shape[axis], given.x->strides[axis], given.out->strides[axis]);
    const int64_t residual_stride = given.residual == nullptr ? 0 : given.residual->strides[axis];
    call.residual_rows.add_axis(given.x->shape[axis], residual_stride, 0);
  }
  call.all.traffic = traffic_of(call);
  return call;
}

void run(const Call &call) {
  const int64_t dim = call.all.dim;
  const int64_t rows_per_task = std::clamp<int64_t>(task_floats / dim, 1, most_rows_per_task);
  // A cycle for each element, or less where they come from a cache.
  const int workers = workers_for(*call.context, static_cast<double>(call.rows.count * dim));
  run_tasks(*call.context, workers, ceil_div(call.rows.count, rows_per_task), [&](int, int64_t task) {
    NormRow list[most_rows_per_task + most_rows_listed_ahead];
    const int64_t first = task * rows_per_task;
    NormRows rows = call.all;
    rows.row = list;
    rows.count = std::min(rows_per_task, call.rows.count - first);
    const int64_t ahead = rows.traffic == NormTraffic::cached ? 0 : most_rows_listed_ahead;
    rows.listed = std::min(rows.count + ahead, call.rows.count - first);
    const auto &types = rows.types;
    RowCursor row(call.rows, first);
    RowCursor residual(call.residual_rows, first);
    for (int64_t i = 0; i < rows.listed; ++i, row.next(), residual.next()) {
      list[i] = {.x = element_at(call.x, types.x, row.x_offset()),
                 .residual = call.residual == nullptr ? nullptr
                                                      : element_at(call.residual, types.residual, residual.x_offset()),
                 .out = element_at(call.out, types.out, row.out_offset())};
    }
    call.context->kernels->rowwise->norm_rows(rows);
  });
}

}  // namespace

Status layer_norm(const Context *given, const TensorArgument &x, const TensorArgument &out,
                  const fovea_layer_norm_options *given_options) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  fovea_layer_norm_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  double epsilon = 0;
  FOVEA_CHECK(check_norm_options(options, &epsilon));
  const TensorArgument weight(options.weight), bias(options.bias), residual(options.residual);
  const NormOperands operands = {x, weight, bias, residual, out};
  FOVEA_CHECK(check_norm_tensors(operands));
  if (element_count(*x) > 0) run(make_call(*context, operands, epsilon));
  return FOVEA_OK;
}

}  // namespace fovea
