// Functions over rows that many kernels call, far too large to be compiled with each: isa/shared_rows.cpp has them once
// for a set. They are the only ones that its units share by name, in the set's own namespace; sets that only add
// instructions to another (FOVEA_SHARED_ISA) take that one's.
#pragma once

#include "kernels/simd.hpp"

namespace fovea {

// Rows of numbers with binary16 scales, as HeadRows has them.
struct ScaledRows {
  const void *numbers;
  Dtype dtype;            // i8, or u8: two features of 4 bits a byte
  int64_t stride;         // in bytes
  const Float16 *scales;  // of the first row
  int64_t scale_stride;
  int64_t group;  // features that share a scale
  int64_t count;
};

// Scores of keys [key, key + keys) and some rows, [key][row], and each row's bias and boolean mask (from key 0; null:
// none).
struct MaskedScores {
  float *scores;
  int64_t stride;  // in floats, from key to key
  int64_t key, keys;
  int64_t rows;
  const void *const *bias;
  const uint8_t *const *mask;
  Dtype bias_dtype;
};

struct MatmulRows;

namespace FOVEA_SHARED_ISA {

// Rows as floats, `to_stride` apart.
void widen_rows(const void *from, Dtype dtype, int64_t stride, int64_t count, int64_t dim, float *to,
                int64_t to_stride);

// A row of floats as elements of that type.
void narrow_row(const float *from, int64_t dim, void *to, Dtype dtype);

// Whether all elements of those rows are finite.
bool rows_are_finite(const void *from, Dtype dtype, int64_t stride, int64_t count, int64_t dim);

// Features [feature, feature + width) of all rows as elements of `dtype`, rows to_stride apart
// (kernels/scaled_rows.hpp).
void scale_rows_of(const ScaledRows &from, int64_t feature, int64_t width, void *to, Dtype dtype, int64_t to_stride);

// Scores plus bias, or -infinity where masked (kernels/attention/bias_and_mask.hpp).
void add_bias_and_mask(const MaskedScores &tile);

// Copies of a product's rows as floats, a row's `depth` of them after the other's.
void copy_float_rows(const MatmulRows &rows);

// tile[c][r] = rows[r][c] for up to a register's lanes of rows; the lanes of missing rows become 0. tile_stride: floats
// between columns.
void rows_to_lanes(const float *const *rows, int64_t row_count, int64_t columns, float *tile, int64_t tile_stride);
void rows_to_lanes(const Bfloat16 *const *rows, int64_t row_count, int64_t columns, float *tile, int64_t tile_stride);
void rows_to_lanes(const Float16 *const *rows, int64_t row_count, int64_t columns, float *tile, int64_t tile_stride);

// rows[r][c] = tile[c][r] * factor[r], likewise.
void lanes_to_rows(const float *tile, int64_t tile_stride, const FOVEA_ISA::Float &factor, float *const *rows,
                   int64_t row_count, int64_t columns);
void lanes_to_rows(const float *tile, int64_t tile_stride, const FOVEA_ISA::Float &factor, Bfloat16 *const *rows,
                   int64_t row_count, int64_t columns);
void lanes_to_rows(const float *tile, int64_t tile_stride, const FOVEA_ISA::Float &factor, Float16 *const *rows,
                   int64_t row_count, int64_t columns);

}  // namespace FOVEA_SHARED_ISA

namespace FOVEA_ISA {
using namespace FOVEA_SHARED_ISA;
}

}  // namespace fovea
