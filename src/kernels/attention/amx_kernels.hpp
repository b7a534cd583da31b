// The struct of kernels of attention on AMX's tiles, for one element type. Vectors compute returned weights and scores.
#pragma once

#include "kernels/attention/amx_driver.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Element>
void attend_tiles(const AttentionTask &task) {
  AmxAttention<Element>(task).run();
}

template <class Element>
int64_t tile_scratch(int64_t head_dim, int64_t value_dim, bool) {
  return AmxAttention<Element>::scratch_floats(head_dim, value_dim);
}

// Other kernels take few rows.
inline int64_t no_rows(int64_t) { return 0; }

template <class Element>
constexpr AttentionKernels tile_kernels() {
  return {.set = FOVEA_SET_NAME,
          .reads_pairs = false,  // of any stride: they are packed
          .split_keys = 2 * block_keys,
          .tile_rows = band_rows,
          .tile_keys = block_keys,
          .few_rows_keys = no_rows,
          .most_few_rows = no_rows,
          .tile_bands = AmxAttention<Element>::bands_of,
          .scratch_floats = tile_scratch<Element>,
          .kept_bytes = nullptr,
          .tile = attend_tiles<Element>,
          .rows = nullptr,
          .weights = nullptr,
          .scores = nullptr,
          .score_unit = score_unit,
          .finish_units = nullptr,
          .squared_norms = nullptr,
          .packed_block_bytes = packed_block_bytes,
          .pack = pack_block,
          .gradients = nullptr,
          .gradient_floats = nullptr,
          .gradient_key_floats = nullptr};
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
