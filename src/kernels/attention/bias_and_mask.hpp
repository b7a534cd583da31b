// Adds bias and boolean mask to a tile of scores. They lie row by row and scores key by key, so each square of lanes x
// lanes is transposed on the way.
#pragma once

#include <math.h>

#include "beyond_xsimd/bytes.hpp"
#include "kernels/shared_rows.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Fewer bytes than a register's worth, zeros behind them: a call, as they come at the end of a tile alone.
FOVEA_NOINLINE Float first_bytes(const int8_t *from, int64_t width) { return Float(load_first_bytes(from, width)); }

// Bias and boolean mask of `width` keys from `key` on, one row, as one addend: -infinity where masked. Behind them is
// anything.
template <class Element>
FOVEA_INLINE Float addend(const void *bias, const uint8_t *mask, int64_t key, int64_t width) {
  Float sum = bias == nullptr ? zero() : load_partial(static_cast<const Element *>(bias) + key, width);
  if (mask != nullptr) {
    const auto *bytes = reinterpret_cast<const int8_t *>(mask) + key;
    const Float attended = width == lanes ? Float(load_bytes(bytes)) : first_bytes(bytes, width);
    sum = choose(attended == zero(), splat(-INFINITY), sum);
  }
  return sum;
}

// A score whose addend is -infinity is replaced, not added to: NaN in a masked key must not survive.
template <class Element>
FOVEA_INLINE void add_addends(const MaskedScores &tile) {
  const Float masked = splat(-INFINITY);
  Square square;
  for (int64_t r = 0; r < tile.rows; r += lanes) {
    for (int64_t j = 0; j < tile.keys; j += lanes) {
      const int64_t width = min_of(lanes, tile.keys - j);
      unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
        const bool present = r + i < tile.rows;
        square.row[i] = present ? addend<Element>(tile.bias[r + i], tile.mask[r + i], tile.key + j, width) : zero();
      });
      transpose(square);
      unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
        if (i >= width) return;
        float *at = tile.scores + (j + i) * tile.stride + r;
        const Float &sum = square.row[i];
        store(at, choose(sum == masked, masked, load(at) + sum));
      });
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
