// The struct of a score function's own kernels, which the drivers of its paths call.
#pragma once

#include "isa/unit.hpp"
#include "kernels/attention/few_rows.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea {
extern const PathKernels FOVEA_KERNELS(many_rows), FOVEA_KERNELS(few_rows);
extern const GradientKernels FOVEA_KERNELS(gradients);
extern const ScoreFunction FOVEA_KERNELS(dot_products);
}  // namespace fovea

namespace fovea::FOVEA_ISA {
namespace {

constexpr const PathKernels &many_rows = FOVEA_KERNELS(many_rows);
constexpr const PathKernels &few_rows = FOVEA_KERNELS(few_rows);

template <class Tile, class Rows>
int64_t attention_scratch(int64_t head_dim, int64_t value_dim, bool copies) {
  const ScoreFunction &score = score_function<Tile>;
  const int64_t tile = many_rows.attend_floats(score, head_dim, value_dim, copies);
  const int64_t passes = many_rows.passes_floats(score, head_dim, copies);
  if constexpr (same_type<Rows, void>)
    return max_of(tile, passes);
  else
    return max_of(max_of(tile, passes), few_rows.attend_floats(score_function<Rows>, head_dim, value_dim, copies));
}

template <class Score>
void attend_many(const AttentionTask &task) {
  many_rows.attend(score_function<Score>, task);
}

template <class Score>
void attend_few(const AttentionTask &task) {
  few_rows.attend(score_function<Score>, task);
}

template <class Score>
void weigh(const AttentionTask &task) {
  many_rows.weights(score_function<Score>, task);
}

template <class Score>
void write_scores(const AttentionTask &task) {
  many_rows.scores(score_function<Score>, task);
}

inline int64_t kept_bytes(int64_t key_len) { return many_rows.kept_bytes(key_len); }

template <class Score>
void pass_gradients(const GradientTask &task) {
  FOVEA_KERNELS(gradients).run(score_function<Score>, FOVEA_KERNELS(dot_products), task);
}

template <class Score>
int64_t gradient_scratch(int64_t head_dim, int64_t value_dim) {
  return FOVEA_KERNELS(gradients).scratch_floats(score_function<Score>, head_dim, value_dim);
}

inline int64_t gradient_key_floats(int64_t head_dim, int64_t value_dim) {
  return FOVEA_KERNELS(gradients).key_floats(head_dim, value_dim);
}

// Rows: void if few rows take other kernels.
template <class Tile, class Rows>
constexpr AttentionKernels attention_kernels() {
  AttentionKernels kernels = {.set = FOVEA_SET_NAME,
                              .reads_pairs = Tile::takes_pairs,
                              .split_keys = 96,
                              .tile_rows = Tile::tile_rows,
                              .tile_keys = Tile::tile_keys,
                              .few_rows_keys = nullptr,
                              .most_few_rows = nullptr,
                              .tile_bands = Tile::bands,
                              .scratch_floats = attention_scratch<Tile, Rows>,
                              .kept_bytes = kept_bytes,
                              .tile = attend_many<Tile>,
                              .rows = nullptr,
                              .weights = weigh<Tile>,
                              .scores = write_scores<Tile>,
                              .score_unit = score_unit,
                              .finish_units = nullptr,
                              .squared_norms = nullptr,
                              .packed_block_bytes = nullptr,
                              .pack = nullptr,
                              .gradients = nullptr,
                              .gradient_floats = nullptr,
                              .gradient_key_floats = nullptr};
  if constexpr (!same_type<Rows, void>) {
    kernels.few_rows_keys = Rows::keys_at_once;
    kernels.most_few_rows = Rows::few_rows_of;
    kernels.rows = attend_few<Rows>;
  }
  if constexpr (HasGradient<Tile>) {
    kernels.gradients = pass_gradients<Tile>;
    kernels.gradient_floats = gradient_scratch<Tile>;
    kernels.gradient_key_floats = gradient_key_floats;
  }
  return kernels;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
