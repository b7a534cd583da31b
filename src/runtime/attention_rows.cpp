// Which calls each kernel of attention suits.
#include "runtime/attention_rows.hpp"

#include <initializer_list>

namespace fovea {
namespace {

bool all_are(Dtype dtype, const AttentionWish &wish, bool rounds) {
  for (const Dtype type : {wish.query, wish.key, wish.value}) {
    if (type != dtype && !(rounds && type == Dtype::f32)) return false;
  }
  return true;
}

// Rows of a head's keys that stay with vectors where there are tiles. For 32 keys of 128 + 128 features tiles take 256
// cycles for 16 rows and about 700 to pack what nothing else will read, vectors 256 for each row in float32 (two
// multiply-adds a cycle) and 128 in products of pairs. From memory, 16 kB at 10 bytes a cycle, all of that but more
// rows of float32 is hidden.
constexpr int64_t most_rows_beside_tiles = 8;

// The first kernels for many rows that fit and have what is asked for.
const AttentionKernels &choose_many_rows(Features allowed, const AttentionWish &wish,
                                         bool (*has)(const AttentionKernels &)) {
  const Features available = allowed & cpu_features();
  const AttentionRow *chosen = nullptr;
  for (const AttentionRow &row : attention_rows) {
    const bool serves = row.path == AttentionPath::many_rows && has(*row.kernels);
    if (!serves || row.score != wish.score || (row.needs & ~available) != 0) continue;
    if (row.fits(row, wish) == Fit::yes) {
      chosen = &row;
      break;
    }
  }
  return *chosen->kernels;
}

}  // namespace

Fit fits_few_rows(const AttentionRow &row, const AttentionWish &wish) {
  return wish.counts_rows && wish.rows <= row.kernels->most_few_rows(wish.compared_dim) ? Fit::yes : Fit::no;
}

Fit fits_few_bytes(const AttentionRow &row, const AttentionWish &wish) {
  return wish.in_bytes ? fits_few_rows(row, wish) : Fit::no;
}

// One row or two are as quick when they are widened: memory bounds them. Three take 0.9 of the time on pairs (Zen 5).
// float32 is rounded, and keys are copied, only where rows are many.
Fit fits_few_pairs(const AttentionRow &row, const AttentionWish &wish) {
  constexpr int64_t least_rows = 3;
  if (wish.rows < least_rows || fits_few_rows(row, wish) == Fit::no) return Fit::no;
  if (!all_are(Dtype::bf16, wish, wish.rounds && wish.many_rows)) return Fit::no;
  if (wish.compared_dim % 2 != 0) return Fit::odd_dim;
  return wish.many_rows || wish.keys_in_pairs ? Fit::yes : Fit::odd_stride;
}

// The Gaussian's differences are float32's, so where all pairs of points get them, values alone would gain.
Fit fits_many_pairs(const AttentionRow &, const AttentionWish &wish) {
  if (wish.score == ScoreKind::gaussian && wish.compared_dim <= most_differences) return Fit::no;
  if (!all_are(Dtype::bf16, wish, wish.rounds)) return Fit::no;
  return wish.compared_dim % 2 == 0 ? Fit::yes : Fit::odd_dim;
}

// What is wanted of bfloat16 beside the output comes from pairs. Scaled by what dropout keeps, weights of binary16
// might overflow.
Fit fits_tiles(const AttentionRow &row, const AttentionWish &wish) {
  if (wish.key_len == 0 || (wish.counts_rows && wish.rows <= most_rows_beside_tiles)) return Fit::no;
  if (row.multiplied == Multiplied::float16) {
    return all_are(Dtype::f16, wish, false) && !wish.drops_weights ? Fit::yes : Fit::no;
  }
  const bool passes_fit = !wish.wants_passes || wish.compared_dim % 2 == 0;
  return all_are(Dtype::bf16, wish, wish.rounds) && passes_fit ? Fit::yes : Fit::no;
}

AttentionChoice choose_attention(Features allowed, const AttentionWish &wish) {
  AttentionChoice choice = {.row = nullptr, .pairs = Fit::no, .tiles_refused = false};
  const Features available = allowed & cpu_features();
  for (const AttentionRow &row : attention_rows) {
    if (row.score != wish.score || (row.needs & ~available) != 0) continue;
    const Fit fit = row.fits(row, wish);
    if (fit == Fit::yes && ((row.needs & feature::tiles) == 0 || tiles_granted())) {
      choice.row = &row;
      break;
    }
    if (fit == Fit::yes) choice.tiles_refused = true;
    if (fit != Fit::yes && fit != Fit::no) choice.pairs = fit;
  }
  return choice;
}

const AttentionKernels &choose_passes(Features allowed, const AttentionWish &wish) {
  return choose_many_rows(allowed, wish, [](const AttentionKernels &its) { return its.weights != nullptr; });
}

const AttentionKernels &choose_gradients(Features allowed, const AttentionWish &wish) {
  return choose_many_rows(allowed, wish, [](const AttentionKernels &its) { return its.gradients != nullptr; });
}

}  // namespace fovea
