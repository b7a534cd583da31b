// What a score function is given, one tile of keys against the rows of a band, and what it has to provide. It fills
// tile.scores[key][row] with raw scores, for every row of a register some row of which attends the key; those in
// kernels/scores/ are the ones there are, each a struct for many rows and one for few.
#pragma once

#include "kernels/attention/logit_terms.hpp"
#include "kernels/attention/paths.hpp"
#include "kernels/attention/source.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <int64_t rows>
struct ScoreJob {
  const AttentionProblem &problem;
  const RowTable<rows> &table;
  float *query;              // as load_queries left it, and what room it asked for
  RowSpan keys;              // the tile's
  const float *key_scalars;  // of key 0; see ScoreInputs
  const ScoreTile &tile;
  const Prefetch &next;            // to be asked for on the way
  const RowsNext *then = nullptr;  // the tile's values, to be asked for by kernels of bytes

  // The number that goes with the tile's key j.
  FOVEA_INLINE float key_scalar(int64_t j) const { return key_scalars[tile.key + j]; }
};

// Of Gaussian scores whose keys have norms, where `query` says what the last tile had, as 1 or 0: near pairs only; near
// pairs, maybe beside others. A tile that is said to have none has none.
constexpr int64_t all_near_at = 0, some_near_at = 1;

// Gradients of a tile of raw scores, in place of the scores, to be passed on: added to the sums of queries and of keys.
template <int64_t rows>
struct GradientJob {
  ScoreJob<rows> score;
  const float *query_rows;  // [row][stride], of what the kernel compares
  int64_t stride;           // whole registers
  float *query_sums;        // [d][row]; null: not wanted
  float *key_sums;          // [key][stride]; null: not wanted
  float *vector_sums;       // [unit], of the vector v of additive scores; null: not wanted
  float *raw;               // raw scores, [key][row], to be written over; null: none of them is of a near pair
};

template <class A, class B>
concept Same = same_type<A, B>;

// How weights meet values, for many rows or for few: ManyRowsValues, FewRowsValues or what is derived from them.
template <class Path>
concept ValueSums = requires(float *sums, const float *factors, void *const *rows, RowSpan values,
                             const ScoreTile &tile, int64_t n) {
  { Path::tile_rows } -> Same<const int64_t &>;
  { Path::tile_keys } -> Same<const int64_t &>;   // at most
  { Path::line_keys } -> Same<const int64_t &>;   // of a single row whose scores are its logits
  { Path::value_keys } -> Same<const int64_t &>;  // summed together
  { Path::is_few_rows } -> Same<const bool &>;
  { Path::takes_bytes } -> Same<const bool &>;  // keys and values of 8 bits as they lie
  { Path::takes_pairs } -> Same<const bool &>;  // keys as they lie, values as RowForm::pairs
  { Path::max_bands } -> Same<const int64_t &>;
  { Path::keys_at_once(n) } -> Same<int64_t>;  // of a task of n rows
  { Path::bands(n, n) } -> Same<int64_t>;      // of a task, by head_dim and value_dim
  { Path::out_floats(n) } -> Same<int64_t>;    // a band's sums
  Path::clear_out(sums, n, n);
  Path::add_values(sums, values, n, n, tile, factors);
  Path::add_out(sums, factors, factors, n, n);
  Path::store_out(factors, n, factors, rows, Dtype::f32, n, sums);
};

// A struct in scores/ whose gradients are there, too: of pairs those of a dot product alone, for which `gradient` is
// null.
template <class Score>
concept HasGradient = requires {
  &Score::gradient;
}
&&(!Score::takes_pairs || same_type<decltype(Score::gradient), const decltype(nullptr)>);

template <class Score>
constexpr auto gradient_of() -> bool (*)(const void *) {
  if constexpr (HasGradient<Score> && requires(const GradientJob<Score::tile_rows> &job) { Score::gradient(job); }) {
    return [](const void *job) { return Score::gradient(*static_cast<const GradientJob<Score::tile_rows> *>(job)); };
  } else {
    return nullptr;
  }
}

template <class Score>
inline constexpr ScoreFunction score_function = {
    .query_floats = Score::query_floats,
    .load_queries =
        [](const AttentionProblem &problem, const void *table, float *query) {
          Score::load_queries(problem, *static_cast<const RowTable<Score::tile_rows> *>(table), query);
        },
    .score = [](const void *job) { Score::score(*static_cast<const ScoreJob<Score::tile_rows> *>(job)); },
    .gradient = gradient_of<Score>()};

}  // namespace
}  // namespace fovea::FOVEA_ISA
