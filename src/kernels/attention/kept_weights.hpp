// Returned weights: those of each tile are kept as the driver leaves them, relative to the largest score that their row
// had met by then, until the row's final largest score and its sum are known:
//   weights[row][key] = kept[key][row] * e^(largest then - largest) / sum
// so scores and exponentials are made once. For a register of weights that is a load and a store to keep it and a load,
// a product, a transpose and a store to write it, against the D + 15 instructions of a second pass
// (attention/weights.hpp).
//
// The memory is one worker's, 4 * rows bytes for each key, for as many bands as a task has; it stays in the
// second-level cache as long as keys are few. In a row of NaNs, products cannot tell NaN from what is masked: the
// second pass writes such a row.
#pragma once

#include "kernels/attention/empty_rows.hpp"
#include "kernels/attention/online_softmax.hpp"
#include "kernels/elements.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <int64_t rows, int64_t keys>
struct KeptTile {
  alignas(64) float weights[keys * rows];  // [key][row]
  float max[rows];
  KeyRange range;
};

// The kept weights of one band.
template <int64_t rows, int64_t keys>
struct KeptWeights {
  using Tile = KeptTile<rows, keys>;

  Tile *tiles = nullptr;
  int64_t count = 0;

  static constexpr int64_t tiles_of(int64_t key_len) { return ceil_div(key_len, keys); }

  // Tiles come in the order of their keys.
  FOVEA_NOINLINE void keep(const ScoreTile &tile, const float *row_max) {
    Tile &kept = tiles[count++];
    kept.range = {tile.key, tile.key + tile.keys};
    for (int64_t v = 0; v < tile.vectors; ++v) {
      const float *from = tile.scores + v * lanes;
      float *to = kept.weights + v * lanes;
      store(kept.max + v * lanes, load(row_max + v * lanes));
      for (int64_t j = 0; j < tile.keys; ++j) store(to + j * rows, load(from + j * tile.stride));
    }
  }

  // Writes the weights of the task's rows from row_begin on, which ended with that state.
  FOVEA_NOINLINE void write(const AttentionTask &task, int64_t row_begin, int64_t row_count,
                            const SoftmaxState<rows> &state, const ScaledExp2 &exponent) const {
    const AttentionProblem &problem = *task.problem;
    const AttentionOutputs &outputs = problem.outputs;
    with_element(outputs.weights_dtype, [&]<class T>(T) FOVEA_INLINE_BODY {
      using Element = typename T::Element;
      Element *to[rows];
      QueryCursor row(problem, task.batch, task.kv_head, row_begin);
      for (int64_t r = 0; r < row_count; ++r, row.advance()) {
        to[r] = static_cast<Element *>(outputs.weights) + row.at(outputs.weights_strides);
      }
      write_rows(state, exponent, row_count, problem.sizes.key_len, to);
      for (int64_t r = 0; problem.empty_rows != EmptyRows::zero && r < row_count; ++r) {
        if (state.sum[r] == 0.0f) fill_run(to[r], problem.sizes.key_len, empty_weight(problem));
      }
    });
  }

 private:
  // What lies between tiles becomes 0, and so do rows that saw nothing.
  template <class Element>
  FOVEA_INLINE void write_rows(const SoftmaxState<rows> &state, const ScaledExp2 &exponent, int64_t row_count,
                               int64_t key_len, Element *const *to) const {
    const auto clear = [&](int64_t first, int64_t last) FOVEA_INLINE_BODY {
      for (int64_t r = 0; first < last && r < row_count; ++r) fill_run(to[r] + first, last - first, 0.0f);
    };
    int64_t done = 0;
    for (const Tile *tile = tiles; tile != tiles + count; ++tile) {
      clear(done, tile->range.first);
      Element *at[rows];
      for (int64_t r = 0; r < row_count; ++r) at[r] = to[r] + tile->range.first;
      for (int64_t r = 0; r < row_count; r += lanes) {
        const Float max = load(tile->max + r);
        const Float met = quotient(exponent(max - finite_max(load(state.max + r))), load(state.sum + r));
        const Float factor = choose(max == minus_infinity(), zero(), met);
        lanes_to_rows(tile->weights + r, rows, factor, at + r, min_of(lanes, row_count - r),
                      tile->range.last - tile->range.first);
      }
      done = tile->range.last;
    }
    clear(done, key_len);
  }
};

}  // namespace
}  // namespace fovea::FOVEA_ISA
