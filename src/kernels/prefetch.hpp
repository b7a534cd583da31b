// Software prefetch: what will be needed next is asked for during the work before, a little at a time. A burst of prefetches
// stalls as soon as the core's line buffers are full.
#pragma once

#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t cache_line_floats = 16;

// One row into the second-level cache; for_write takes the lines for writing.
template <bool for_write>
FOVEA_INLINE void prefetch_row(const float *row, int64_t count) {
  for (int64_t i = 0; i < count; i += cache_line_floats) __builtin_prefetch(row + i, for_write ? 1 : 0, 2);
}

// Keys and values of the tile after the one at work.
struct NextTile {
  const float *key, *value;
  int64_t key_stride, value_stride;
  int64_t head_dim, value_dim;
  int64_t keys;  // 0: nothing to fetch

  FOVEA_INLINE void fetch(int64_t first, int64_t count) const {
    for (int64_t j = first; j < min_of(first + count, keys); ++j) {
      prefetch_row<false>(key + j * key_stride, head_dim);
      prefetch_row<false>(value + j * value_stride, value_dim);
    }
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
