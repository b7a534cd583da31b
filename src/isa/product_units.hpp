// The structs of the units that MatmulKernels are made of.
#pragma once

#include "isa/unit.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/products/few_rows.hpp"

// The set whose code finishes sums: that on which the unit's set is built.
#if defined(__AVX512F__)
#define FOVEA_FINISH finish_avx512
#elif defined(__AVX2__)
#define FOVEA_FINISH finish_avx2
#else
#define FOVEA_FINISH FOVEA_KERNELS(finish)
#endif

namespace fovea {

// Products with a right-hand side of one element type: MatmulKernels' block, few_rows and, of floats, columns.
struct ProductLoops {
  void (*block)(const MatmulTask &task);
  void (*few_rows)(const MatmulTask &task);
  void (*columns)(const MatmulTask &task) = nullptr;
};

struct FinishKernels {
  void (*sums)(const MatmulFinish &finish);
};

extern const ProductLoops FOVEA_KERNELS(float_products), FOVEA_KERNELS(bfloat_products), FOVEA_KERNELS(half_products);
extern const FinishKernels FOVEA_FINISH;

}  // namespace fovea
