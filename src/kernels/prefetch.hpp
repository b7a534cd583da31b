// Software prefetch into the second-level cache: what will be needed next is asked for during the work before, a little
// at a time. A burst of prefetches stalls as soon as the core's line buffers are full.
#pragma once

#include "kernels/simd.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr int64_t line_floats = 16;
constexpr int64_t line_bytes = 64;

// Rows of memory that will be read or written soon, in bytes.
struct Upcoming {
  const char *from = nullptr;
  int64_t stride = 0;
  int64_t size = 0;  // of a row
  int64_t rows = 0;

  Upcoming() = default;
  FOVEA_INLINE Upcoming(const void *data, Dtype dtype, int64_t row_stride, int64_t dim, int64_t count)
      : from(static_cast<const char *>(data)),
        stride(row_stride * (is_narrow(dtype) ? 2 : 4)),
        size(dim * (is_narrow(dtype) ? 2 : 4)),
        rows(count) {}

  FOVEA_INLINE void fetch(int64_t first, int64_t count) const {
    const int64_t last = min_of(first + count, rows);
    for (int64_t r = first; r < last; ++r) {
      for (int64_t i = 0; i < size; i += line_bytes) __builtin_prefetch(from + r * stride + i, 0, 2);
    }
  }
};

// What is prefetched while a tile is at work, spread over its keys.
struct Prefetch {
  Upcoming keys, values;  // of the next tile
  Upcoming queries;       // of the next band of rows
  Upcoming out;           // of this band, when the tile is one of its last

  FOVEA_INLINE void fetch(int64_t first, int64_t count) const {
    keys.fetch(first, count);
    values.fetch(first, count);
    queries.fetch(first, count);
    out.fetch(first, count);
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
