// Functions over rows that many kernels call, far too large to be compiled with each: isa/shared_rows.cpp has them once
// for a set. They are the only ones that its units share by name, in the set's own namespace; sets that only add
// instructions to another (FOVEA_SHARED_ISA) take that one's.
#pragma once

#include "kernels/random/dropout_problem.hpp"
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

struct KeyRange {
  int64_t first, last;  // [first, last)
};

// What rows add to scores or take from them, an element for each row (RowTable, kernels/attention/row_table.hpp).
struct LogitRows {
  const int32_t *first_key;
  const int32_t *last_key;
  const int32_t *left_out;
  const int32_t *position;
  const float *slope;
  const float *inverse_square;
  const uint32_t *philox[3];
  const void *const *bias;
  const uint8_t *const *mask;
  int64_t count;
};

// A tile of scores or weights (ScoreTile, kernels/attention/logit_terms.hpp) with its rows.
struct LogitTile {
  float *scores;
  int64_t stride;
  int64_t vectors;
  int64_t key;
  int64_t keys;
  const KeyRange *vector_any;
  LogitRows rows;
};

// A tile of logits whose softmax is to be taken (kernels/attention/online_softmax.hpp): its keys, `stride` floats from
// one to the next, in so many registers of rows, and what its rows have seen so far, a float for each row.
struct SoftmaxTile {
  float *max;
  float *sum;
  float *rescale;
  float *scores;
  int64_t stride;
  int64_t vectors;
  int64_t keys;
  float exponent_scale;
};

struct AttentionProblem;
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

// Turns raw scores into logits, after they are multiplied by a factor (kernels/attention/change_scores.hpp).
void change_scores(const LogitTile &tile, const AttentionProblem &problem, float multiply);

// Dropout on a tile of weights (kernels/attention/drop_weights.hpp).
void drop_weights(const LogitTile &tile, const Dropout &dropout, int64_t batch);

// Turns a tile of logits into weights and brings the state up to date: the first where lanes are rows, the other where
// a register holds several keys (kernels/attention/dense_tile.hpp).
void update_softmax(const SoftmaxTile &tile);
void update_softmax_of_dense(const SoftmaxTile &tile);

// What a row with nothing to attend gives, in the outputs' type (kernels/attention/empty_row_output.hpp).
void fill_empty_row(const AttentionProblem &problem, int64_t batch, int64_t kv_head, void *out);

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
