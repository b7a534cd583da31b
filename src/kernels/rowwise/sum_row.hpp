// Adds up rows of floats that several tasks have left, in their order, and rounds once.
#pragma once

#include "kernels/elements.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Whole registers go without masks: Zen 3 takes a dozen cycles for a masked store.
inline void sum_row(const SumRow &row) {
  with_element(row.out_type, [&]<class T>(T) FOVEA_INLINE_BODY {
    auto *out = static_cast<typename T::Element *>(row.out);
    const auto sum_of = [&](const auto &load_at) FOVEA_INLINE_BODY {
      Float sum = load_at(row.parts);
      for (int64_t part = 1; part < row.count; ++part) sum = sum + load_at(row.parts + part * row.stride);
      return sum;
    };
    int64_t d = 0;
    for (; d + lanes <= row.dim; d += lanes) {
      store(out + d, sum_of([&](const float *part) FOVEA_INLINE_BODY { return load(part + d); }));
    }
    const int64_t left = row.dim - d;
    if (left == 0) return;
    store_partial(out + d, sum_of([&](const float *part) FOVEA_INLINE_BODY { return load_partial(part + d, left); }),
                  left);
  });
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
