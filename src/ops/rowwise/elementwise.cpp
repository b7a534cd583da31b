// Elementwise functions. Axes that lie one after the other in both tensors are joined, so that a contiguous tensor is
// one long run; the elements, in row-major order, are then cut into pieces of one size.
#include "ops/rowwise/elementwise.hpp"

#include <algorithm>

#include "ops/rowwise/check.hpp"
#include "ops/tensors/rows.hpp"
#include "runtime/parallel.hpp"

namespace fovea {
namespace {

constexpr int64_t task_floats = 16384;  // 128 kB in and out: stays in a core's L2

// map(kernels, run)
template <class Map>
Status map_tensor(const Context *given, const fovea_tensor *x, const fovea_tensor *out, const Map &map) {
  const Context *context = nullptr;
  FOVEA_CHECK(resolve_context(given, &context));
  FOVEA_CHECK(check_elements(x, out));
  const int64_t elements = element_count(*x);
  if (elements == 0) return FOVEA_OK;
  const Runs runs = join_axes(*x, *out);
  const RowwiseKernels &kernels = *context->kernels->rowwise;
  const auto x_type = static_cast<Dtype>(x->dtype);
  const auto out_type = static_cast<Dtype>(out->dtype);
  const void *from = x->data;
  void *to = out->data;
  // A cycle for each element.
  const int workers = workers_for(*context, static_cast<double>(elements));
  run_tasks(*context, workers, ceil_div(elements, task_floats), [&](int, int64_t task) {
    int64_t left = std::min(task_floats, elements - task * task_floats);
    int64_t column = task * task_floats % runs.length;
    for (RowCursor row(runs.rows, task * task_floats / runs.length); left > 0; row.next()) {
      const int64_t count = std::min(left, runs.length - column);
      map(kernels, ElementRun{.x = element_at(from, x_type, row.x_offset() + column),
                              .x_type = x_type,
                              .out = element_at(to, out_type, row.out_offset() + column),
                              .out_type = out_type,
                              .count = count});
      left -= count;
      column = 0;
    }
  });
  return FOVEA_OK;
}

}  // namespace

Status exp_elements(const Context *context, const TensorArgument &x, const TensorArgument &out) {
  return map_tensor(context, x, out, [](const RowwiseKernels &kernels, const ElementRun &run) { kernels.exp(run); });
}

Status tanh_elements(const Context *context, const TensorArgument &x, const TensorArgument &out) {
  return map_tensor(context, x, out, [](const RowwiseKernels &kernels, const ElementRun &run) { kernels.tanh(run); });
}

Status activate_elements(const Context *context, int32_t kind, const TensorArgument &x, const TensorArgument &out) {
  FOVEA_CHECK(check_activation(kind));
  return map_tensor(context, x, out, [kind](const RowwiseKernels &kernels, const ElementRun &run) {
    kernels.activate(run, static_cast<Activation>(kind));
  });
}

}  // namespace fovea
