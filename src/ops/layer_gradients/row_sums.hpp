// Sums over many rows that several threads add up: a kernel adds up few rows as floats, a task some of these sums as
// float64, and the tasks' are added in their order. How rows are cut depends on their number and width alone.
#pragma once

#include <algorithm>

#include "fovea/fovea.h"
#include "integers.hpp"
#include "kernels/kernel_table.hpp"
#include "runtime/memory_layout.hpp"

namespace fovea {

class RowSums {
 public:
  // width: of a row, and numbers of a sum of `rows`. sums: how many of these numbers are wanted, which may be 0.
  RowSums(int64_t rows, int64_t width, int64_t sums, MemoryLayout *layout);

  static constexpr int64_t most_rows = 64;  // of a kernel's call

  int64_t tasks() const { return tasks_; }

  // add(first, count, floats): of so many rows from `first` on, to floats.
  template <class Add>
  void run(int64_t task, void *memory, const Add &add) const {
    float *floats = sums_ == 0 ? nullptr : floats_.in(memory) + task * sums_;
    double *totals = sums_ == 0 ? nullptr : totals_.in(memory) + task * sums_;
    std::fill_n(totals, sums_, 0.0);
    const int64_t end = std::min(rows_, (task + 1) * rows_per_task_);
    for (int64_t first = task * rows_per_task_; first < end; first += rows_per_call_) {
      std::fill_n(floats, sums_, 0.0f);
      add(first, std::min(rows_per_call_, end - first), floats);
      for (int64_t i = 0; i < sums_; ++i) totals[i] += static_cast<double>(floats[i]);
    }
  }

  // Once all tasks have run: `to.shape[0]` numbers from `first` on become a vector.
  void store(const RowwiseKernels &kernels, void *memory, int64_t first, const fovea_tensor &to) const;

 private:
  int64_t rows_, sums_;
  int64_t rows_per_call_, rows_per_task_, tasks_;
  MemoryPart<float> floats_;
  MemoryPart<double> totals_;
};

}  // namespace fovea
