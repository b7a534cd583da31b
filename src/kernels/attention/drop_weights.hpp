// Dropout on a tile of weights[key][row]. Four keys in a row share a counter, from multiples of 4 on; tiles begin and
// end anywhere.
//
// Per register of weights: 24 instructions (AVX2: 32) of Philox's eight rounds, and 5 (9) to prepare, compare and
// apply.
#pragma once

#include "kernels/attention/logit_terms.hpp"
#include "kernels/random/dropout.hpp"

namespace fovea::FOVEA_ISA {
namespace {

FOVEA_INLINE void drop_weights_of(const LogitTile &of, const Dropout dropout, int64_t batch) {
  const ScoreTile tile = {of.scores, of.stride, of.vectors, of.key, of.keys, of.vector_any};
  const LogitRows rows = of.rows;
  const PhiloxKey philox_key(dropout.seed);
  for (int64_t key = tile.key / 4 * 4; key < tile.key + tile.keys; key += 4) {
    const PhiloxColumn column(static_cast<uint32_t>(key / 4), static_cast<uint32_t>(batch), philox_key);
    const int64_t j = key - tile.key;
    for (int64_t v = 0; v < tile.vectors; ++v) {
      const KeyRange range = tile.vector_any == nullptr ? KeyRange{0, tile.keys} : tile.keys_of(v);
      if (j + 4 <= range.first || j >= range.last) continue;
      // The random numbers of a register of rows for four keys are the rest of Philox's rounds on these.
      const int64_t r = v * lanes;
      PhiloxCounters counters = counters_ahead({rows.philox[0] + r, rows.philox[1] + r, rows.philox[2] + r}, column);
      Word random[4];
      counters.template finish<philox_rounds_ahead>(philox_key, random);
      unroll<4>([&](auto w) FOVEA_INLINE_BODY {
        if (j + w < range.first || j + w >= range.last) return;
        float *at = tile.scores + (j + w) * tile.stride + v * lanes;
        store(at, drop(load(at), random[w], dropout));
      });
    }
  }
}

template <int64_t rows>
FOVEA_INLINE void apply_dropout(const ScoreTile &tile, const RowTable<rows> &table, const Dropout &dropout,
                                int64_t batch) {
  drop_weights(with_rows(tile, table), dropout, batch);
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
