#include "ops/layer_gradients/row_sums.hpp"

#include "ops/tensors/copy.hpp"

namespace fovea {
namespace {

constexpr int64_t call_floats = 16384;  // 64 kB
constexpr int64_t most_tasks = 64;

}  // namespace

RowSums::RowSums(int64_t rows, int64_t width, int64_t sums, MemoryLayout *layout)
    : rows_(rows),
      sums_(sums),
      rows_per_call_(std::clamp<int64_t>(call_floats / std::max<int64_t>(width, 1), 4, most_rows)) {
  const int64_t calls = ceil_div(rows, rows_per_call_);
  rows_per_task_ = ceil_div(calls, std::clamp<int64_t>(calls, 1, most_tasks)) * rows_per_call_;
  tasks_ = ceil_div(rows, std::max<int64_t>(rows_per_task_, 1));
  if (sums == 0) return;
  floats_ = layout->add<float>({tasks_, sums});
  totals_ = layout->add<double>({tasks_, sums});
}

void RowSums::store(const RowwiseKernels &kernels, void *memory, int64_t first, const fovea_tensor &to) const {
  const double *totals = totals_.in(memory);
  for (int64_t i = 0; i < to.shape[0]; ++i) {
    double total = 0.0;
    for (int64_t task = 0; task < tasks_; ++task) total += totals[task * sums_ + first + i];
    store_float(kernels, static_cast<float>(total), to, i * to.strides[0]);
  }
}

}  // namespace fovea
