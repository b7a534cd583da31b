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
  constexpr int64_t block = 256;
  const auto dtype = static_cast<Dtype>(to.dtype);
  for (int64_t begin = 0; begin < to.shape[0]; begin += block) {
    const int64_t count = std::min(block, to.shape[0] - begin);
    double total[block] = {};
    for (int64_t task = 0; task < tasks_; ++task) {
      const double *its = totals_.in(memory) + task * sums_ + first + begin;
      for (int64_t i = 0; i < count; ++i) total[i] += its[i];
    }
    float floats[block];
    for (int64_t i = 0; i < count; ++i) floats[i] = static_cast<float>(total[i]);
    if (to.strides[0] == 1) {
      kernels.narrow_row(floats, count, element_at(to.data, dtype, begin), dtype);
    } else {
      for (int64_t i = 0; i < count; ++i) store_float(kernels, floats[i], to, (begin + i) * to.strides[0]);
    }
  }
}

}  // namespace fovea
