// Included once by each instruction set's unit, after FOVEA_ISA (its namespace) and FOVEA_ARCH (its xsimd architecture) are
// defined: all kernels for that set, and the table that is the only symbol to leave the unit. Everything else has internal
// linkage, so the linker can never take a wide copy of a shared inline function for a narrow machine.
#include "kernels/attention_driver.hpp"
#include "kernels/attention_rows_path.hpp"
#include "kernels/attention_tile_path.hpp"
#include "kernels/attention_weights.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/matmul.hpp"
#include "kernels/merge.hpp"
#include "kernels/softmax_stream.hpp"
#include "kernels/table.hpp"

namespace fovea::FOVEA_ISA {
namespace {

void attention_tile(const AttentionTask &task) { AttentionWorker<TilePath>(task).run(); }
void attention_rows(const AttentionTask &task) { AttentionWorker<RowsPath>(task).run(); }
void attention_weights(const AttentionTask &task) { WeightsWorker(task).run(); }

int64_t attention_scratch_floats(int64_t head_dim, int64_t value_dim) {
  const int64_t tile = AttentionWorker<TilePath>::scratch_floats(head_dim, value_dim);
  const int64_t few = AttentionWorker<RowsPath>::scratch_floats(head_dim, value_dim);
  const int64_t weights = WeightsWorker::scratch_floats(head_dim);
  return max_of(tile, max_of(few, weights));
}

constexpr Kernels make_table(const char *name) {
  return {.name = name,
          .lanes = lanes,
          .attention = {.tile_rows = TilePath::tile_rows,
                        .tile_keys = TilePath::tile_keys,
                        .few_rows = RowsPath::tile_rows / 2,
                        .few_rows_keys = RowsPath::tile_keys,
                        .tile_bands = TilePath::bands,
                        .scratch_floats = attention_scratch_floats},
          .matmul = {.panel_columns = panel_columns},
          .exp = exp_elements,
          .tanh = tanh_elements,
          .softmax_rows = softmax_rows,
          .merge_row = merge_row,
          .attention_tile = attention_tile,
          .attention_rows = attention_rows,
          .attention_weights = attention_weights,
          .fill_empty_row = fill_empty_row,
          .empty_log_sum_exp = empty_log_sum_exp,
          .matmul_pack = matmul_pack,
          .matmul_block = matmul_block};
}

}  // namespace
}  // namespace fovea::FOVEA_ISA
