// Rows and columns as attention's backward pass wants them: whole registers, products of two rows, gradients of weights
// that lie row by row added to tiles of [key][row].
#pragma once

#include "kernels/attention/logit_terms.hpp"
#include "kernels/elements.hpp"
#include "kernels/transpose.hpp"

namespace fovea::FOVEA_ISA {
namespace {

// Floats of a row that is read in whole registers.
FOVEA_INLINE int64_t whole_registers(int64_t dim) { return round_up(dim, lanes); }

// a . b of rows of any type and of floats.
FOVEA_NOINLINE float row_product(const void *a, Dtype dtype, const float *b, int64_t dim) {
  Float sum[2] = {zero(), zero()};
  with_element(dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
    const auto *row = static_cast<const typename T::Element *>(a);
    int64_t d = 0;
    for (; d + 2 * lanes <= dim; d += 2 * lanes) {
      sum[0] = multiply_add(load(row + d), load(b + d), sum[0]);
      sum[1] = multiply_add(load(row + d + lanes), load(b + d + lanes), sum[1]);
    }
    for (; d < dim; d += lanes) {
      const int64_t width = min_of(lanes, dim - d);
      sum[0] = multiply_add(load_partial(row + d, width), load_partial(b + d, width), sum[0]);
    }
  });
  return horizontal_sum(sum[0] + sum[1]);
}

// tile[key][row] += rows[row][key] * factor
template <class Element>
FOVEA_NOINLINE void add_transposed(const ScoreTile &tile, const void *const *from, int64_t count, float factor) {
  Square square;
  for (int64_t r = 0; r < count; r += lanes) {
    for (int64_t j = 0; j < tile.keys; j += lanes) {
      const int64_t width = min_of(lanes, tile.keys - j);
      unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
        square.row[i] =
            r + i < count ? load_partial(static_cast<const Element *>(from[r + i]) + tile.key + j, width) : zero();
      });
      transpose(square);
      unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
        float *at = tile.scores + (j + i) * tile.stride + r;
        if (i < width) store(at, multiply_add(square.row[i], splat(factor), load(at)));
      });
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
