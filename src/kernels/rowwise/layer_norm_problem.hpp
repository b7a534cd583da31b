// What the kernel of layer normalisation works on. All rows have a contiguous last axis.
#pragma once

#include <stdint.h>

#include "types.hpp"

namespace fovea {

// What is thought to come from where:
//   cached        all of it lies in caches
//   from_memory   x lies in memory; out is left to the caches
//   past_caches   likewise, but out, which is neither x nor residual, is too large for any cache and written past them
enum class NormTraffic { cached, from_memory, past_caches };

struct NormRow {
  const void *x;
  const void *residual;  // added to x; null in every row or in none
  void *out;             // may be x or residual where their types are the same
};

struct NormRows {
  const NormRow *row;
  int64_t count;
  int64_t listed;  // at least count: those after them come next, and may be asked for
  int64_t dim;
  const void *weight;  // [dim]; null: ones
  const void *bias;    // [dim]; null: zeros
  struct {
    Dtype x, residual, out, weight, bias;  // of what there is
  } types;
  double epsilon;
  NormTraffic traffic;
};

}  // namespace fovea
