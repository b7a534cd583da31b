// AVX-512's plain products, to which kernels for pairs and for tiles leave what is not theirs: every processor that has
// those has these.
#pragma once

#include "kernels/products/matmul_problem.hpp"

namespace fovea {
extern const MatmulKernels products_avx512;
}
