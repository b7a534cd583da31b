// Layer and RMS normalisation. Rows are independent; consecutive ones make a task. Nothing is allocated.
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

// An output of one number for each row.
struct RowNumbers {
  float *data;    // null: not wanted
  RowSpace rows;  // as its out

  // Those of `count` rows from `first` on.
  void put(const float *numbers, int64_t first, int64_t count) const {
    if (data == nullptr) return;
    RowCursor row(rows, first);
    for (int64_t i = 0; i < count; ++i, row.next()) data[row.out_offset()] = numbers[i];
  }
};

struct Call {
  const Context *context;
  RowSpace rows;           // of x and out
  RowSpace residual_rows;  // of the residual and of the sum with it, where there are
  RowNumbers mean, inverse_deviation;
  const void *x, *residual;
  void *out, *sum;
  NormRows all;  // what is common to all tasks
};

NormTraffic traffic_of(const Call &call) {
  const auto bytes = [&](Dtype type) {
    return call.rows.count * call.all.dim * static_cast<int64_t>(dtype_size(type));
  };
  const auto &types = call.all.types;
  const int64_t out = bytes(types.out);
  const auto in_place = [&](const void *output) {
    return output != nullptr && (output == call.x || output == call.residual);
  };
  if (out >= streamed_bytes && !in_place(call.out) && !in_place(call.sum)) return NormTraffic::past_caches;
  const int64_t read = bytes(types.x) + (call.residual == nullptr ? 0 : bytes(types.residual));
  const int64_t written = out + (call.sum == nullptr ? 0 : bytes(types.sum));
  return read + written >= cached_bytes ? NormTraffic::from_memory : NormTraffic::cached;
}

NormRows common_rows(const NormOperands &given, const NormSettings &settings) {
  return {.row = nullptr,
          .count = 0,
          .listed = 0,
          .dim = given.x->shape[given.x->rank - 1],
          .weight = data_of(given.weight),
          .bias = data_of(given.bias),
          .types = {.x = type_of(given.x),
                    .residual = type_of(given.residual),
                    .out = type_of(given.out),
                    .weight = type_of(given.weight),
                    .bias = type_of(given.bias),
                    .sum = type_of(given.sum)},
          .epsilon = settings.epsilon,
          .traffic = NormTraffic::cached,
          .kind = settings.kind,
          .weight_raise = settings.weight_raise};
}

RowNumbers numbers_of(const fovea_tensor *tensor) {
  RowNumbers numbers = {.data = nullptr, .rows = {}};
  if (tensor == nullptr) return numbers;
  numbers.data = static_cast<float *>(tensor->data);
  for (int axis = 0; axis < tensor->rank; ++axis) {
    numbers.rows.add_axis(tensor->shape[axis], 0, tensor->strides[axis]);
  }
  return numbers;
}

Call make_call(const Context &context, const NormOperands &given, const NormSettings &settings) {
  Call call = {.context = &context,
               .rows = {},
               .residual_rows = {},
               .mean = numbers_of(given.mean),
               .inverse_deviation = numbers_of(given.inverse_deviation),
               .x = given.x->data,
               .residual = data_of(given.residual),
               .out = given.out->data,
               .sum = given.sum == nullptr ? nullptr : given.sum->data,
               .all = common_rows(given, settings)};
  for (int axis = 0; axis + 1 < given.x->rank; ++axis) {
    call.rows.add_axis(given.x->shape[axis], given.x->strides[axis], given.out->strides[axis]);
    const auto stride = [&](const fovea_tensor *tensor) { return tensor == nullptr ? 0 : tensor->strides[axis]; };
    call.residual_rows.add_axis(given.x->shape[axis], stride(given.residual), stride(given.sum));
  }
  call.all.traffic = traffic_of(call);
  return call;
}

// `count` rows from `first` on.
void list_rows(const Call &call, int64_t first, int64_t count, NormRow *list) {
  const auto &types = call.all.types;
  RowCursor row(call.rows, first);
  RowCursor residual(call.residual_rows, first);
  for (int64_t i = 0; i < count; ++i, row.next(), residual.next()) {
    list[i].x = element_at(call.x, types.x, row.x_offset());
    list[i].residual =
        call.residual == nullptr ? nullptr : element_at(call.residual, types.residual, residual.x_offset());
    list[i].out = element_at(call.out, types.out, row.out_offset());
    list[i].sum = call.sum == nullptr ? nullptr : element_at(call.sum, types.sum, residual.out_offset());
  }
}

void run(const Call &call) {
  const int64_t dim = call.all.dim;
  const int64_t rows_per_task = std::clamp<int64_t>(task_floats / dim, 1, most_rows_per_task);
  // A cycle for each element, or less where they come from a cache.
  const int workers = workers_for(*call.context, static_cast<double>(call.rows.count * dim));
  run_tasks(*call.context, workers, ceil_div(call.rows.count, rows_per_task), [&](int, int64_t task) {
    NormRow list[most_rows_per_task + most_rows_listed_ahead];
    float mean[most_rows_per_task], inverse_deviation[most_rows_per_task];
    const int64_t first = task * rows_per_task;
    NormRows rows = call.all;
    rows.row = list;
    rows.count = std::min(rows_per_task, call.rows.count - first);
    const int64_t ahead = rows.traffic == NormTraffic::cached ? 0 : most_rows_listed_ahead;
    rows.listed = std::min(rows.count + ahead, call.rows.count - first);
    if (call.mean.data != nullptr) rows.mean = mean;
    if (call.inverse_deviation.data != nullptr) rows.inverse_deviation = inverse_deviation;
    list_rows(call, first, rows.listed, list);
    call.context->kernels->rowwise->norm_rows(rows);
    call.mean.put(mean, first, rows.count);
    call.inverse_deviation.put(inverse_deviation, first, rows.count);
  });
}

Status norm(const Context &context, const NormOperands &operands, const NormSettings &settings) {
  FOVEA_CHECK(check_norm_tensors(operands));
  if (element_count(*operands.x) > 0) run(make_call(context, operands, settings));
  return FOVEA_OK;
}

}  // namespace

Status layer_norm(const Context *given, const TensorArgument &x, const TensorArgument &out,
                  const fovea_layer_norm_options *given_options) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  fovea_layer_norm_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  NormSettings settings;
  FOVEA_CHECK(check_norm_options(options, &settings));
  const TensorArgument weight(options.weight), bias(options.bias), residual(options.residual), sum(options.sum);
  const TensorArgument mean(options.mean), inverse_deviation(options.inverse_deviation);
  return norm(*context, {x, weight, bias, residual, out, sum, mean, inverse_deviation}, settings);
}

Status rms_norm(const Context *given, const TensorArgument &x, const TensorArgument &out,
                const fovea_rms_norm_options *given_options) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  fovea_rms_norm_options options;
  FOVEA_CHECK(read_options("options", given_options, &options));
  NormSettings settings;
  FOVEA_CHECK(check_norm_options(options, &settings));
  const TensorArgument weight(options.weight), residual(options.residual), sum(options.sum);
  const TensorArgument inverse_deviation(options.inverse_deviation);
  return norm(*context, {x, weight, nullptr, residual, out, sum, nullptr, inverse_deviation}, settings);
}

}  // namespace fovea
