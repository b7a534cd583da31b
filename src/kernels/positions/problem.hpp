// What the kernels of positional encodings work on. All rows have a contiguous last axis; strides count elements.
// Frequencies are in quarter turns for each position: radians times 2 / pi.
#pragma once

#include <stdint.h>

#include "kernels/random/dropout_problem.hpp"
#include "types.hpp"

namespace fovea {

// Where rows are thought to lie: in a core's own second-level cache, in a larger one, far enough to be asked for ahead,
// or in memory.
enum class Distance { near, cached, far, memory };

// Rows of the sinusoidal encoding: sine and cosine of positions[row] * frequencies[j] in columns 2j and 2j + 1.
struct EncodingRows {
  const double *frequencies;  // of ceil(dim / 2) pairs, then zeros up to whole registers of floats
  const double *positions;
  int64_t count;
  int64_t dim;
  const void *x;  // added to; null: nothing is
  Dtype x_type;
  int64_t x_stride;
  void *out;
  Dtype out_type;
  int64_t out_stride;
  bool stream;  // write past the caches: out is large and is not x
};

// out = dropout(x + encoding), the encoding made before. Row r stands at batch + r * batch_step, query + r *
// query_step.
struct AddedRows {
  const void *x;
  Dtype x_type;
  int64_t x_stride;
  const float *encoding;
  int64_t encoding_stride;  // 0: one for all rows
  void *out;                // may be x where their types are the same
  Dtype out_type;
  int64_t out_stride;
  int64_t count;
  int64_t dim;
  Distance distance;
  bool stream;
  const Dropout *dropout;  // null: none
  int64_t batch;
  int64_t batch_step;
  int64_t query;
  int64_t query_step;
  int64_t first_column = 0;  // for dropout: of the row that these are columns of
};

// The rotations that rows turn by. A row of the table holds two runs of floats, `width` apart, for
// out = x * first + y * second, where y is the pair's other feature:
//   half-split    cosine (j)                    sine (j)                        width: pairs, rounded up to registers
//   interleaved   cosine (j), cosine (j), ...   -sine (j), sine (j), ...        width: 2 * pairs, rounded up likewise
struct RotaryTable {
  const double *frequencies;  // of the pairs, then zeros up to whole registers of floats; negative ones turn back
  const double *positions;    // of each row; of one row whose pairs have positions of their own, of each pair
  int64_t count;
  int64_t pairs;
  bool interleaved;
  int64_t width;
  float factor;  // of cosines and sines
  float *table;  // [count, 2 * width]
};

// A row of the table from cosines and sines that were given.
struct GivenTurns {
  const void *cosines;
  Dtype cosine_type;
  const void *sines;
  Dtype sine_type;
  int64_t pairs;
  bool interleaved;
  int64_t width;
  float cosine_factor, sine_factor;
  float *table;  // [2 * width]
};

struct RotatedRows {
  const void *x;
  Dtype x_type;
  int64_t x_stride;
  void *out;  // may be x where their types are the same
  Dtype out_type;
  int64_t out_stride;
  const float *table;
  int64_t table_stride;  // 0: one rotation for all rows
  int64_t width;
  int64_t count;
  int64_t head_dim;
  int64_t rotary_dim;  // the features from here on are copied
  bool interleaved;
  Distance distance;
  bool stream;
};

}  // namespace fovea
