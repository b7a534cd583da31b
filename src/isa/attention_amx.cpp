// Attention of many rows of bfloat16 on AMX's tiles. Weights and scores as outputs come from pairs of bfloat16.
#include "isa/unit.hpp"
#include "kernels/attention/amx_worker.hpp"
#include "kernels/attention/driver.hpp"
#include "kernels/attention/scores_out.hpp"
#include "kernels/attention/weights.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/scores/dot_pairs.hpp"

namespace fovea::FOVEA_ISA {
namespace {

using Weights = WeightsWorker<DotPairs>;
using Scores = ScoresWorker<DotPairs>;

template <class Worker>
void run_worker(const AttentionTask &task) {
  Worker(task).run();
}

void run_tiles(const AttentionTask &task) { AmxAttention(task).run_task(); }

int64_t scratch(int64_t head_dim, int64_t value_dim, bool widens) {
  const int64_t passes = max_of(Weights::scratch_floats(head_dim, widens), Scores::scratch_floats(head_dim, widens));
  return max_of(AmxAttention::scratch_floats(head_dim, value_dim), passes);
}

int64_t no_rows(int64_t) { return 0; }

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) = {.set = FOVEA_SET_NAME,
                                                    .tile_rows = FOVEA_ISA::band_rows,
                                                    .tile_keys = FOVEA_ISA::block_keys,
                                                    .few_rows_keys = FOVEA_ISA::no_rows,
                                                    .few_rows = FOVEA_ISA::no_rows,
                                                    .tile_bands = FOVEA_ISA::AmxAttention::bands_of,
                                                    .scratch_floats = FOVEA_ISA::scratch,
                                                    .tile = FOVEA_ISA::run_tiles,
                                                    .rows = nullptr,
                                                    .weights = FOVEA_ISA::run_worker<FOVEA_ISA::Weights>,
                                                    .scores = FOVEA_ISA::run_worker<FOVEA_ISA::Scores>,
                                                    .score_unit = FOVEA_ISA::score_unit,
                                                    .finish_units = nullptr,
                                                    .squared_norms = nullptr,
                                                    .packed_block_bytes = FOVEA_ISA::packed_block_bytes,
                                                    .pack = FOVEA_ISA::pack_block};
}  // namespace fovea
