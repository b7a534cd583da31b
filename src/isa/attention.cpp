// Attention, by every score function: what they have in common is compiled once.
#include "isa/unit.hpp"
#include "kernels/attention/driver.hpp"
#include "kernels/attention/scores_out.hpp"
#include "kernels/attention/weights.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/scores/additive_few_rows.hpp"
#include "kernels/scores/additive_many_rows.hpp"
#include "kernels/scores/dot.hpp"
#include "kernels/scores/gaussian.hpp"

namespace fovea::FOVEA_ISA {
namespace {

template <class Worker>
void run_worker(const AttentionTask &task) {
  Worker(task).run();
}

template <class Tile, class Rows>
int64_t attention_scratch(int64_t head_dim, int64_t value_dim, bool widens) {
  const int64_t tile = AttentionWorker<Tile>::scratch_floats(head_dim, value_dim, widens);
  const int64_t few = AttentionWorker<Rows>::scratch_floats(head_dim, value_dim, widens);
  const int64_t weights = WeightsWorker<Tile>::scratch_floats(head_dim, widens);
  return max_of(tile, max_of(few, weights));
}

template <class Tile, class Rows>
constexpr AttentionKernels attention_kernels() {
  return {.set = FOVEA_SET_NAME,
          .tile_rows = Tile::tile_rows,
          .tile_keys = Tile::tile_keys,
          .few_rows_keys = Rows::keys_at_once,
          .few_rows = Rows::few_rows_of,
          .tile_bands = Tile::bands,
          .scratch_floats = attention_scratch<Tile, Rows>,
          .kept_bytes = AttentionWorker<Tile>::kept_bytes,
          .tile = run_worker<AttentionWorker<Tile>>,
          .rows = run_worker<AttentionWorker<Rows>>,
          .weights = run_worker<WeightsWorker<Tile>>,
          .scores = run_worker<ScoresWorker<Tile>>,
          .score_unit = score_unit,
          .finish_units = nullptr,
          .squared_norms = nullptr,
          .packed_block_bytes = nullptr,
          .pack = nullptr};
}

constexpr AttentionKernels additive_kernels() {
  AttentionKernels kernels = attention_kernels<AdditiveManyRows, AdditiveFewRows>();
  kernels.finish_units = finish_units;
  return kernels;
}

constexpr AttentionKernels gaussian_kernels() {
  AttentionKernels kernels = attention_kernels<GaussianManyRows, GaussianFewRows>();
  kernels.squared_norms = squared_norms;
  return kernels;
}

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) =
    FOVEA_ISA::attention_kernels<FOVEA_ISA::DotManyRows, FOVEA_ISA::DotFewRows>();
extern const AttentionKernels FOVEA_KERNELS(additive) = FOVEA_ISA::additive_kernels();
extern const AttentionKernels FOVEA_KERNELS(gaussian) = FOVEA_ISA::gaussian_kernels();
}  // namespace fovea
