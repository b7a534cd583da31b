// The list of all kernels of attention, best first, and the choice among them.
#pragma once

#include "kernels/kernel_table.hpp"
#include "runtime/cpu.hpp"
#include "runtime/set_rows.hpp"

namespace fovea {

// Few rows are computed a span of keys at a time, at the speed of memory; many a block of rows at a time.
enum class AttentionPath { few_rows, many_rows };

// What kernels multiply: elements of any type, as float32, or those of one type by instructions for it.
enum class Multiplied { floats, bfloat16, float16, bytes };

// What a call asks of its kernels.
struct AttentionWish {
  ScoreKind score;
  Dtype query, key, value;
  bool rounds;         // float32 may be rounded to bfloat16
  bool keys_in_pairs;  // of 16 bits, they can be read where they lie two features at a time
  bool in_bytes;       // keys and values are of 8 bits with scales that products of bytes take
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
Fit fits_few_bytes(const AttentionRow &row, const AttentionWish &wish);
Fit fits_few_pairs(const AttentionRow &row, const AttentionWish &wish);
Fit fits_many_pairs(const AttentionRow &row, const AttentionWish &wish);
Fit fits_tiles(const AttentionRow &row, const AttentionWish &wish);
constexpr Fit fits_always(const AttentionRow &, const AttentionWish &) { return Fit::yes; }

FOVEA_OF_EACH_SET(AttentionKernels, dot);
FOVEA_OF_EACH_SET(AttentionKernels, additive);
FOVEA_OF_EACH_SET(AttentionKernels, gaussian);
extern const AttentionKernels dot_avx512bf16, gaussian_avx512bf16;
extern const AttentionKernels dot_avx512vnni;
extern const AttentionKernels dot_amxbf16, dot_amxfp16;

constexpr AttentionRow few_floats(ScoreKind score, Features needs, const AttentionKernels *kernels) {
  return {score, AttentionPath::few_rows, Multiplied::floats, needs, kernels, fits_few_rows};
}
constexpr AttentionRow many_floats(ScoreKind score, Features needs, const AttentionKernels *kernels) {
  return {score, AttentionPath::many_rows, Multiplied::floats, needs, kernels, fits_always};
}
constexpr AttentionRow few_bytes(ScoreKind score, const AttentionKernels *kernels) {
  constexpr Features needs = feature::avx512 | feature::byte_products;
  return {score, AttentionPath::few_rows, Multiplied::bytes, needs, kernels, fits_few_bytes};
}
constexpr AttentionRow few_pairs(ScoreKind score, const AttentionKernels *kernels) {
  return {score, AttentionPath::few_rows, Multiplied::bfloat16, feature::bfloat16_pairs, kernels, fits_few_pairs};
}
constexpr AttentionRow many_pairs(ScoreKind score, const AttentionKernels *kernels) {
  return {score, AttentionPath::many_rows, Multiplied::bfloat16, feature::bfloat16_pairs, kernels, fits_many_pairs};
}
constexpr AttentionRow on_tiles(Multiplied multiplied, Features tiles, const AttentionKernels *kernels) {
  return {ScoreKind::dot, AttentionPath::many_rows, multiplied, feature::bfloat16_pairs | tiles, kernels, fits_tiles};
}

// One kernel, one row. Many rows of pairs come behind few rows of floats, which are as quick where pairs of few rows do
// not fit.
// clang-format off
inline constexpr AttentionRow attention_rows[] = {
    FOVEA_FLOAT16_TILES_ROW(on_tiles(Multiplied::float16, feature::tiles, &dot_amxfp16))
    FOVEA_BFLOAT16_TILES_ROW(on_tiles(Multiplied::bfloat16, feature::bfloat16_tiles, &dot_amxbf16))
    FOVEA_AVX512_ROW(few_bytes(ScoreKind::dot, &dot_avx512vnni))
    FOVEA_PAIRS_ROW(few_pairs(ScoreKind::dot, &dot_avx512bf16))
    FOVEA_AVX512_ROW(few_floats(ScoreKind::dot, feature::avx512, &dot_avx512))
    FOVEA_PAIRS_ROW(many_pairs(ScoreKind::dot, &dot_avx512bf16))
    FOVEA_AVX512_ROW(many_floats(ScoreKind::dot, feature::avx512, &dot_avx512))
    FOVEA_AVX2_ROW(few_floats(ScoreKind::dot, feature::avx2, &dot_avx2))
    FOVEA_AVX2_ROW(many_floats(ScoreKind::dot, feature::avx2, &dot_avx2))
    few_floats(ScoreKind::dot, 0, &dot_base),
    many_floats(ScoreKind::dot, 0, &dot_base),

    FOVEA_AVX512_ROW(few_floats(ScoreKind::additive, feature::avx512, &additive_avx512))
    FOVEA_AVX512_ROW(many_floats(ScoreKind::additive, feature::avx512, &additive_avx512))
    FOVEA_AVX2_ROW(few_floats(ScoreKind::additive, feature::avx2, &additive_avx2))
    FOVEA_AVX2_ROW(many_floats(ScoreKind::additive, feature::avx2, &additive_avx2))
    few_floats(ScoreKind::additive, 0, &additive_base),
    many_floats(ScoreKind::additive, 0, &additive_base),

    FOVEA_AVX512_ROW(few_floats(ScoreKind::gaussian, feature::avx512, &gaussian_avx512))
    FOVEA_PAIRS_ROW(many_pairs(ScoreKind::gaussian, &gaussian_avx512bf16))
    FOVEA_AVX512_ROW(many_floats(ScoreKind::gaussian, feature::avx512, &gaussian_avx512))
    FOVEA_AVX2_ROW(few_floats(ScoreKind::gaussian, feature::avx2, &gaussian_avx2))
    FOVEA_AVX2_ROW(many_floats(ScoreKind::gaussian, feature::avx2, &gaussian_avx2))
    few_floats(ScoreKind::gaussian, 0, &gaussian_base),
    many_floats(ScoreKind::gaussian, 0, &gaussian_base),
};
// clang-format on

struct AttentionChoice {
  const AttentionRow *row;
  Fit pairs;           // why better kernels do not suit, where that is worth telling; else Fit::no
  bool tiles_refused;  // by the system
};

// The first row whose features are among `allowed` and this processor's, and which fits. Asks the system for tiles if a
// row that fits needs them.
AttentionChoice choose_attention(Features allowed, const AttentionWish &wish);

// Likewise the first that writes weights and scores, and the first that has a backward pass.
const AttentionKernels &choose_passes(Features allowed, const AttentionWish &wish);
const AttentionKernels &choose_gradients(Features allowed, const AttentionWish &wish);

}  // namespace fovea
