// What the kernel of layer and RMS normalisation works on. All rows have a contiguous last axis.
#pragma once

#include <stdint.h>

#include "types.hpp"

namespace fovea {

// What is thought to come from where:
//   cached        all of it lies in caches
//   from_memory   x lies in memory; out is left to the caches
//   past_caches   likewise, but out, which is neither x nor residual, is too large for any cache and written past them
enum class NormTraffic { cached, from_memory, past_caches };

// What a row is freed of and divided by: its mean and its deviation from that, or nothing and the root of its mean
// square.
enum class NormKind { layer, rms };

constexpr float weight_as_it_is = -0.0f;  // added to a number it changes no bit

// Where their types are the same, each of out and sum may be x or residual, but not both the same one.
struct NormRow {
  const void *x;
  const void *residual;  // added to x; null in every row or in none
  void *out;
  void *sum = nullptr;  // becomes x + residual; null in every row or in none, and where there is no residual
};

struct NormRows {
  const NormRow *row;
  int64_t count;
  int64_t listed;  // at least count: those after them come next, and may be asked for
  int64_t dim;
  const void *weight;  // [dim]; null: ones
  const void *bias;    // [dim]; null: zeros
  struct {
    Dtype x, residual, out, weight, bias, sum = Dtype::f32;  // of what there is
  } types;
  double epsilon;
  NormTraffic traffic;
  NormKind kind = NormKind::layer;
  float weight_raise = weight_as_it_is;  // is added to every weight
  // [count], one for each row, or null: its mean; 1 / sqrt(variance + epsilon), or of its mean square.
  float *mean = nullptr;
  float *inverse_deviation = nullptr;
};

}  // namespace fovea
