// Transposes between row-major memory (one pointer per row) and tiles whose lanes are rows: tile[column][row].
#pragma once

#include "kernels/elements.hpp"

#if defined(__AVX512F__)
#include "beyond_xsimd/row_sums_avx512.hpp"
#include "beyond_xsimd/transpose_avx512.hpp"
#elif defined(__AVX2__)
#include "beyond_xsimd/row_sums_avx2.hpp"
#endif

namespace fovea::FOVEA_ISA {
namespace {

struct Square {
  Float row[lanes];
};

FOVEA_INLINE void transpose(Square &square) {
#if defined(__AVX512F__)
  __m512 rows[lanes];
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { rows[i] = square.row[i].data; });
  transpose_16x16(rows);
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { square.row[i] = Float(rows[i]); });
#else
  xsimd::transpose(square.row, square.row + lanes);
#endif
}

// Lane i of the result is the sum of the lanes of square.row[i], which are used up.
FOVEA_INLINE Float sum_rows(Square &square) {
#if defined(__AVX512F__)
  __m512 rows[lanes];
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { rows[i] = square.row[i].data; });
  return Float(row_sums_16x16(rows));
#elif defined(__AVX2__)
  __m256 rows[lanes];
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { rows[i] = square.row[i].data; });
  return Float(row_sums_8x8(rows));
#else
  transpose(square);
  Float sum[4] = {zero(), zero(), zero(), zero()};
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { sum[i % 4] = sum[i % 4] + square.row[i]; });
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
#endif
}

// Lane i of the result is the largest lane of square.row[i], as whole numbers. The square is used up.
FOVEA_INLINE Int largest_of_rows(Square &square) {
#if defined(__AVX512F__)
  __m512 rows[lanes];
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { rows[i] = square.row[i].data; });
  return Int(row_maxima_16x16(rows));
#elif defined(__AVX2__)
  __m256 rows[lanes];
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { rows[i] = square.row[i].data; });
  return Int(row_maxima_8x8(rows));
#else
  transpose(square);
  Int largest = bits_of(square.row[0]);
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY { largest = xsimd::max(largest, bits_of(square.row[i])); });
  return largest;
#endif
}

// One square, whole or at an edge: the first `height` rows and `width` columns exist, the rest of the tile gets 0.
template <bool whole, class Element>
FOVEA_INLINE void square_to_lanes(const Element *const *rows, int64_t c, int64_t height, int64_t width, float *tile,
                                  int64_t tile_stride) {
  Square square;
  unroll<lanes>([&](auto r) FOVEA_INLINE_BODY {
    if constexpr (whole) {
      square.row[r] = load(rows[r] + c);
    } else {
      square.row[r] = r < height ? load_partial(rows[r] + c, width) : zero();
    }
  });
  transpose(square);
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
    if (whole || i < width) store(tile + (c + i) * tile_stride, square.row[i]);
  });
}

template <bool whole, class Element>
FOVEA_INLINE void square_to_rows(const float *tile, int64_t tile_stride, const Float &factor, Element *const *rows,
                                 int64_t c, int64_t height, int64_t width) {
  Square square;
  unroll<lanes>([&](auto i) FOVEA_INLINE_BODY {
    square.row[i] = whole || i < width ? load(tile + (c + i) * tile_stride) * factor : zero();
  });
  transpose(square);
  unroll<lanes>([&](auto r) FOVEA_INLINE_BODY {
    if constexpr (whole) {
      store(rows[r] + c, square.row[r]);
    } else if (r < height) {
      store_partial(rows[r] + c, square.row[r], width);
    }
  });
}

// As rows_to_lanes and lanes_to_rows of kernels/shared_rows.hpp.
template <class Element>
FOVEA_INLINE void squares_to_lanes(const Element *const *rows, int64_t row_count, int64_t columns, float *tile,
                                   int64_t tile_stride) {
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t width = min_of(lanes, columns - c);
    if (row_count == lanes && width == lanes) {
      square_to_lanes<true>(rows, c, lanes, lanes, tile, tile_stride);
    } else {
      square_to_lanes<false>(rows, c, row_count, width, tile, tile_stride);
    }
  }
}

template <class Element>
FOVEA_INLINE void squares_to_rows(const float *tile, int64_t tile_stride, const Float &factor, Element *const *rows,
                                  int64_t row_count, int64_t columns) {
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t width = min_of(lanes, columns - c);
    if (row_count == lanes && width == lanes) {
      square_to_rows<true>(tile, tile_stride, factor, rows, c, lanes, lanes);
    } else {
      square_to_rows<false>(tile, tile_stride, factor, rows, c, row_count, width);
    }
  }
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
