// Included once by each instruction set's unit, after FOVEA_ISA (its namespace) and FOVEA_ARCH (its xsimd architecture)
// are defined: all kernels for that set, and the table that is the only symbol to leave the unit. Everything else has
// internal linkage, so the linker can never take a wide copy of a shared inline function for a narrow machine.
#include "kernels/attention_driver.hpp"
#include "kernels/attention_weights.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/layer_norm.hpp"
#include "kernels/matmul.hpp"
#include "kernels/merge.hpp"
#include "kernels/positional.hpp"
#include "kernels/rotary.hpp"
#include "kernels/score_additive_rows.hpp"
#include "kernels/score_additive_tile.hpp"
#include "kernels/score_gaussian.hpp"
#include "kernels/softmax_stream.hpp"
#include "kernels/table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void attention_tile(const AttentionTask &task) {
  switch (task.problem->score) {
    case ScoreKind::dot: return AttentionWorker<DotTile>(task).run();
    case ScoreKind::additive: return AttentionWorker<AdditiveTile>(task).run();
    case ScoreKind::gaussian: return AttentionWorker<GaussianTile>(task).run();
  }
}

void attention_rows(const AttentionTask &task) {
  switch (task.problem->score) {
    case ScoreKind::dot: return AttentionWorker<DotRows>(task).run();
    case ScoreKind::additive: return AttentionWorker<AdditiveRows>(task).run();
    case ScoreKind::gaussian: return AttentionWorker<GaussianRows>(task).run();
  }
}

void attention_weights(const AttentionTask &task) {
  switch (task.problem->score) {
    case ScoreKind::dot: return WeightsWorker<DotTile>(task).run();
    case ScoreKind::additive: return WeightsWorker<AdditiveTile>(task).run();
    case ScoreKind::gaussian: return WeightsWorker<GaussianTile>(task).run();
  }
}

template <class Tile, class Rows>
int64_t scratch_floats(int64_t head_dim, int64_t value_dim) {
  const int64_t tile = AttentionWorker<Tile>::scratch_floats(head_dim, value_dim);
  const int64_t few = AttentionWorker<Rows>::scratch_floats(head_dim, value_dim);
  const int64_t weights = WeightsWorker<Tile>::scratch_floats(head_dim);
  return max_of(tile, max_of(few, weights));
}

int64_t attention_scratch_floats(ScoreKind score, int64_t head_dim, int64_t value_dim) {
  switch (score) {
    case ScoreKind::dot: return scratch_floats<DotTile, DotRows>(head_dim, value_dim);
    case ScoreKind::additive: return scratch_floats<AdditiveTile, AdditiveRows>(head_dim, value_dim);
    case ScoreKind::gaussian: return scratch_floats<GaussianTile, GaussianRows>(head_dim, value_dim);
  }
  return 0;
}

// Measured with AVX-512 against the tile path, 64 to 256 features: 9 to 12 rows take 0.64 to 0.96 of its time, 16 rows 0.94
// to 1.2. With 32 features 9 rows take 1.4.
inline int64_t few_rows(ScoreKind score, int64_t head_dim) {
  const bool wide = lanes == 16 && score == ScoreKind::dot && head_dim >= 64;
  return wide ? 12 : RowValues::tile_rows / 2;
}

constexpr Kernels make_table(const char *name) {
  return {.name = name,
          .lanes = lanes,
          .attention = {.tile_rows = TileValues::tile_rows,
                        .tile_keys = TileValues::tile_keys,
                        .few_rows_keys = RowValues::keys_at_once,
                        .few_rows = few_rows,
                        .tile_bands = TileValues::bands,
                        .scratch_floats = attention_scratch_floats},
          .matmul = matmul_kernels,
          .projection = matmul_kernels,
          .exp = exp_elements,
          .tanh = tanh_elements,
          .softmax_rows = softmax_rows,
          .merge_row = merge_row,
          .norm_rows = norm_rows,
          .attention_tile = attention_tile,
          .attention_rows = attention_rows,
          .attention_weights = attention_weights,
          .fill_empty_row = fill_empty_row,
          .empty_log_sum_exp = empty_log_sum_exp,
          .score_unit = score_unit,
          .finish_units = finish_units,
          .squared_norms = squared_norms,
          .encode_rows = encode_rows,
          .add_rows = add_rows,
          .rotary_table = rotary_table,
          .rotate_rows = rotate_rows};
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
