// What the kernel of layer normalisation works on. All rows have a contiguous last axis.
#pragma once

#include <stdint.h>

namespace fovea {

struct NormRow {
  const float *x;
  const float *residual;  // added to x; null in every row or in none
  float *out;             // may be x or residual
};

struct NormRows {
  const NormRow *row;
  int64_t count;
  int64_t dim;
  const float *weight;  // [dim]; null: ones
  const float *bias;    // [dim]; null: zeros
  double epsilon;
  bool stream;  // write past the caches: out is large and is neither x nor residual
};

}  // namespace fovea
