// What the kernel of layer normalisation works on. All rows have a contiguous last axis.
#pragma once

#include <stdint.h>

#include "types.hpp"

namespace fovea {

struct NormRow {
  const void *x;
  const void *residual;  // added to x; null in every row or in none
  void *out;             // may be x or residual where their types are the same
};

struct NormRows {
  const NormRow *row;
  int64_t count;
  int64_t dim;
  const void *weight;  // [dim]; null: ones
  const void *bias;    // [dim]; null: zeros
  struct {
    Dtype x, residual, out, weight, bias;  // of what there is
  } types;
  double epsilon;
  bool stream;  // write past the caches: out is large and is neither x nor residual
};

}  // namespace fovea
