// All kernels of attention there are, best first, and the choice among them.
#pragma once

#include "kernels/kernel_table.hpp"
#include "runtime/cpu.hpp"
#include "runtime/set_rows.hpp"

namespace fovea {

// Few rows are computed a span of keys at a time, at the speed of memory; many a block of rows at a time.
enum class AttentionPath { few_rows, many_rows };

// What kernels multiply: elements of any type, as float32, or those of one type by instructions for it.
enum class Multiplied { floats, bfloat16, float16 };

// What a call asks of its kernels.
struct AttentionWish {
  ScoreKind score;
  Dtype query, key, value;
  bool rounds;         // float32 may be rounded to bfloat16
  bool keys_in_pairs;  // of 16 bits, they can be read where they lie two features at a time
  bool drops_weights;  // dropout
  bool wants_passes;   // weights or scores
  bool counts_rows;    // the number of rows may choose the path
  bool many_rows;      // too many for AttentionPath::few_rows of floats
  int64_t rows;        // that share a key/value head
  int64_t key_len;
  int64_t compared_dim;
};

// Whether kernels suit a call. What is worth telling has a name.
enum class Fit { no, yes, odd_dim, odd_stride };

struct AttentionRow {
  ScoreKind score;
  AttentionPath path;
  Multiplied multiplied;
  Features needs;
  const AttentionKernels *kernels;
  Fit (*fits)(const AttentionRow &row, const AttentionWish &wish);
};

Fit fits_few_rows(const AttentionRow &row, const AttentionWish &wish);
Fit fits_few_pairs(const AttentionRow &row, const AttentionWish &wish);
Fit fits_many_pairs(const AttentionRow &row, const AttentionWish &wish);
Fit fits_tiles(const AttentionRow &row, const AttentionWish &wish);
constexpr Fit fits_always(const AttentionRow &, const AttentionWish &) { return Fit::yes; }

FOVEA_OF_EACH_SET(AttentionKernels, dot);
FOVEA_OF_EACH_SET(AttentionKernels, additive);
FOVEA_OF_EACH_SET(AttentionKernels, gaussian);
extern const AttentionKernels dot_avx512bf16, gaussian_avx512bf16;
extern const AttentionKernels dot_amxbf16, dot_amxfp16;

#define FOVEA_FLOAT_ROWS(set, kind, features)                                                               \
  {ScoreKind::kind, AttentionPath::few_rows, Multiplied::floats, features, &kind##_##set, fits_few_rows}, { \
    ScoreKind::kind, AttentionPath::many_rows, Multiplied::floats, features, &kind##_##set, fits_always     \
  }
#define FOVEA_PAIR_ROW(kind, path, fits) \
  { ScoreKind::kind, AttentionPath::path, Multiplied::bfloat16, feature::bfloat16_pairs, &kind##_avx512bf16, fits }

inline constexpr AttentionRow attention_rows[] = {
    FOVEA_AMX_ROW({ScoreKind::dot, AttentionPath::many_rows, Multiplied::float16,
                   feature::bfloat16_pairs | feature::tiles, &dot_amxfp16, fits_tiles})
        FOVEA_AMX_ROW({ScoreKind::dot, AttentionPath::many_rows, Multiplied::bfloat16,
                       feature::bfloat16_pairs | feature::bfloat16_tiles, &dot_amxbf16, fits_tiles})
            FOVEA_AVX512_ROW(FOVEA_PAIR_ROW(dot, few_rows, fits_few_pairs))
    // Many rows of pairs come behind few of floats, which are as quick and read keys of any stride.
    FOVEA_AVX512_ROW(
        {ScoreKind::dot, AttentionPath::few_rows, Multiplied::floats, feature::avx512, &dot_avx512, fits_few_rows})
        FOVEA_AVX512_ROW(FOVEA_PAIR_ROW(dot, many_rows, fits_many_pairs)) FOVEA_AVX512_ROW(
            {ScoreKind::dot, AttentionPath::many_rows, Multiplied::floats, feature::avx512, &dot_avx512, fits_always})
            FOVEA_AVX2_ROW(FOVEA_FLOAT_ROWS(avx2, dot, feature::avx2)) FOVEA_FLOAT_ROWS(base, dot, 0),

    FOVEA_AVX512_ROW(FOVEA_FLOAT_ROWS(avx512, additive, feature::avx512))
        FOVEA_AVX2_ROW(FOVEA_FLOAT_ROWS(avx2, additive, feature::avx2)) FOVEA_FLOAT_ROWS(base, additive, 0),

    FOVEA_AVX512_ROW({ScoreKind::gaussian, AttentionPath::few_rows, Multiplied::floats, feature::avx512,
                      &gaussian_avx512, fits_few_rows})
        FOVEA_AVX512_ROW(FOVEA_PAIR_ROW(gaussian, many_rows, fits_many_pairs))
            FOVEA_AVX512_ROW({ScoreKind::gaussian, AttentionPath::many_rows, Multiplied::floats, feature::avx512,
                              &gaussian_avx512, fits_always})
                FOVEA_AVX2_ROW(FOVEA_FLOAT_ROWS(avx2, gaussian, feature::avx2)) FOVEA_FLOAT_ROWS(base, gaussian, 0)};

struct AttentionChoice {
  const AttentionRow *row;
  Fit pairs;           // why better kernels do not suit, where that is worth telling; else Fit::no
  bool tiles_refused;  // by the system
};

// The first row whose features are among `allowed` and this processor's, and which fits. Asks the system for tiles if a row
// that fits needs them.
AttentionChoice choose_attention(Features allowed, const AttentionWish &wish);

// Likewise the first that writes weights and scores.
const AttentionKernels &choose_passes(Features allowed, const AttentionWish &wish);

}  // namespace fovea
