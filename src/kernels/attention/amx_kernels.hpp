// The struct of kernels of attention on AMX's tiles, for one element type. Weights and scores as outputs come from the vectors'
// many rows of that type.
#pragma once

#include "kernels/attention/amx_worker.hpp"
#include "kernels/attention/driver.hpp"
#include "kernels/attention/scores_out.hpp"
#include "kernels/attention/weights.hpp"
#include "kernels/kernel_table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Worker>
void run_worker(const AttentionTask &task) {
  Worker(task).run();
}

template <class Element, class ManyRows>
int64_t tile_scratch(int64_t head_dim, int64_t value_dim, bool widens) {
  const int64_t passes = max_of(WeightsWorker<ManyRows>::scratch_floats(head_dim, widens),
                                ScoresWorker<ManyRows>::scratch_floats(head_dim, widens));
  return max_of(AmxAttention<Element>::scratch_floats(head_dim, value_dim), passes);
}

// Whoever wants a few rows takes other kernels.
inline int64_t no_rows(int64_t) { return 0; }

template <class Element, class ManyRows>
constexpr AttentionKernels tile_kernels() {
  return {.set = FOVEA_SET_NAME,
          .tile_rows = band_rows,
          .tile_keys = block_keys,
          .few_rows_keys = no_rows,
          .few_rows = no_rows,
          .tile_bands = AmxAttention<Element>::bands_of,
          .scratch_floats = tile_scratch<Element, ManyRows>,
          .kept_bytes = nullptr,
          .tile = run_worker<AmxAttention<Element>>,
          .rows = nullptr,
          .weights = run_worker<WeightsWorker<ManyRows>>,
          .scores = run_worker<ScoresWorker<ManyRows>>,
          .score_unit = score_unit,
          .finish_units = nullptr,
          .squared_norms = nullptr,
          .packed_block_bytes = packed_block_bytes,
          .pack = pack_block};
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
