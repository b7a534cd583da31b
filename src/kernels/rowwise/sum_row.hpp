// Adds up rows of floats that several tasks have left, in their order, and rounds once.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

inline void sum_row(const SumRow &row) {
  with_element(row.out_type, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *out = static_cast<typename T::Element *>(row.out);
    for (int64_t d = 0; d < row.dim; d += lanes) {
      const int64_t width = min_of(lanes, row.dim - d);
      Float sum = load_partial(row.parts + d, width);
      for (int64_t part = 1; part < row.count; ++part) {
        sum = sum + load_partial(row.parts + part * row.stride + d, width);
      }
      store_partial(out + d, sum, width);
    }
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
