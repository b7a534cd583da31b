// Integers that callers have in memory: lengths, offsets, positions, numbers of sequences.
#pragma once

#include <stdint.h>

#include "types.hpp"

namespace fovea {

constexpr int64_t largest_length = int64_t{1} << 30;  // and the largest position: they are 32-bit in the kernels

constexpr int64_t clamp_to(int64_t value, int64_t least, int64_t most) { return max_of(least, min_of(value, most)); }

// The integer at index `at` of those of either size, read once. A compiler may take a plain number from memory twice,
// and where another thread writes there meanwhile, a check and what follows it might see different ones.
[[gnu::always_inline]] inline int64_t read_integer(const void *integers, bool is_64bit, int64_t at) {
  return is_64bit ? __atomic_load_n(static_cast<const int64_t *>(integers) + at, __ATOMIC_RELAXED)
                  : __atomic_load_n(static_cast<const int32_t *>(integers) + at, __ATOMIC_RELAXED);
}

}  // namespace fovea
