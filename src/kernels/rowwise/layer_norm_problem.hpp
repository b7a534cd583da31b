// What the kernel of layer normalisation works on. All rows have a contiguous last axis.
#pragma once

#include <stdint.h>

#include "types.hpp"

namespace fovea {

// Where rows are thought to lie and what becomes of results: both in caches; x at least in memory; x in memory, and out,
// which is neither x nor residual, too large for any cache: written past them.
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
