// Attention on pairs of bfloat16.
#include "isa/unit.hpp"
#include "kernels/attention/driver.hpp"
#include "kernels/attention/scores_out.hpp"
#include "kernels/attention/weights.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/scores/dot_pairs.hpp"
#include "kernels/scores/dot_pairs_few_rows.hpp"
#include "kernels/scores/gaussian_pairs.hpp"

namespace fovea::FOVEA_ISA {
namespace {

using Attention = AttentionWorker<DotPairs>;
using FewRows = AttentionWorker<DotPairsFewRows>;
using Weights = WeightsWorker<DotPairs>;
using Scores = ScoresWorker<DotPairs>;

template <class Worker>
void run_worker(const AttentionTask &task) {
  Worker(task).run();
}

int64_t scratch(int64_t head_dim, int64_t value_dim, bool widens) {
  const int64_t passes = max_of(Weights::scratch_floats(head_dim, widens), Scores::scratch_floats(head_dim, widens));
  return max_of(max_of(Attention::scratch_floats(head_dim, value_dim, widens),
                       FewRows::scratch_floats(head_dim, value_dim, widens)),
                passes);
}

int64_t gaussian_scratch(int64_t head_dim, int64_t value_dim, bool widens) {
  const int64_t weights = WeightsWorker<GaussianPairs>::scratch_floats(head_dim, widens);
  const int64_t scores = ScoresWorker<GaussianPairs>::scratch_floats(head_dim, widens);
  return max_of(AttentionWorker<GaussianPairs>::scratch_floats(head_dim, value_dim, widens), max_of(weights, scores));
}

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) = {.set = FOVEA_SET_NAME,
                                                    .tile_rows = FOVEA_ISA::DotPairs::tile_rows,
                                                    .tile_keys = FOVEA_ISA::DotPairs::tile_keys,
                                                    .few_rows_keys = FOVEA_ISA::DotPairsFewRows::keys_at_once,
                                                    .few_rows = FOVEA_ISA::DotPairsFewRows::few_rows_of,
                                                    .tile_bands = FOVEA_ISA::DotPairs::bands,
                                                    .scratch_floats = FOVEA_ISA::scratch,
                                                    .kept_bytes = FOVEA_ISA::Attention::kept_bytes,
                                                    .tile = FOVEA_ISA::run_worker<FOVEA_ISA::Attention>,
                                                    .rows = FOVEA_ISA::run_worker<FOVEA_ISA::FewRows>,
                                                    .weights = FOVEA_ISA::run_worker<FOVEA_ISA::Weights>,
                                                    .scores = FOVEA_ISA::run_worker<FOVEA_ISA::Scores>,
                                                    .score_unit = FOVEA_ISA::score_unit,
                                                    .finish_units = nullptr,
                                                    .squared_norms = nullptr,
                                                    .packed_block_bytes = nullptr,
                                                    .pack = nullptr};

// Few rows are bound by memory, which leaves time to widen them.
extern const AttentionKernels FOVEA_KERNELS(gaussian) = {
    .set = FOVEA_SET_NAME,
    .tile_rows = FOVEA_ISA::GaussianPairs::tile_rows,
    .tile_keys = FOVEA_ISA::GaussianPairs::tile_keys,
    .few_rows_keys = nullptr,
    .few_rows = nullptr,
    .tile_bands = FOVEA_ISA::GaussianPairs::bands,
    .scratch_floats = FOVEA_ISA::gaussian_scratch,
    .kept_bytes = FOVEA_ISA::AttentionWorker<FOVEA_ISA::GaussianPairs>::kept_bytes,
    .tile = FOVEA_ISA::run_worker<FOVEA_ISA::AttentionWorker<FOVEA_ISA::GaussianPairs>>,
    .rows = nullptr,
    .weights = FOVEA_ISA::run_worker<FOVEA_ISA::WeightsWorker<FOVEA_ISA::GaussianPairs>>,
    .scores = FOVEA_ISA::run_worker<FOVEA_ISA::ScoresWorker<FOVEA_ISA::GaussianPairs>>,
    .score_unit = FOVEA_ISA::score_unit,
    .finish_units = nullptr,
    .squared_norms = nullptr,
    .packed_block_bytes = nullptr,
    .pack = nullptr};
}  // namespace fovea
