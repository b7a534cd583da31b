// Attention of few rows over keys and values of 8 bits, by products of bytes.
#include "isa/path_kernels.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/kernel_table.hpp"
#include "kernels/scores/dot_bytes_few_rows.hpp"

namespace fovea::FOVEA_ISA {
namespace {

using BytesDriver = AttentionDriver<DotBytesFewRows>;

int64_t scratch_of_bytes(int64_t head_dim, int64_t value_dim, bool copies) {
  return BytesDriver::scratch_floats(score_function<DotBytesFewRows>, head_dim, value_dim, copies);
}

void attend_bytes(const AttentionTask &task) { run_driver<BytesDriver>(score_function<DotBytesFewRows>, task); }

// Other kernels take many rows, and make weights and scores.
constexpr AttentionKernels byte_kernels = {.set = FOVEA_SET_NAME,
                                           .reads_pairs = false,
                                           .split_keys = 96,
                                           .tile_rows = ManyRowsValues::tile_rows,
                                           .tile_keys = ManyRowsValues::tile_keys,
                                           .few_rows_keys = DotBytesFewRows::keys_at_once,
                                           .most_few_rows = DotBytesFewRows::few_rows_of,
                                           .tile_bands = nullptr,
                                           .scratch_floats = scratch_of_bytes,
                                           .kept_bytes = nullptr,
                                           .tile = nullptr,
                                           .rows = attend_bytes,
                                           .weights = nullptr,
                                           .scores = nullptr,
                                           .score_unit = score_unit,
                                           .finish_units = nullptr,
                                           .squared_norms = nullptr,
                                           .packed_block_bytes = nullptr,
                                           .pack = nullptr,
                                           .gradients = nullptr,
                                           .gradient_floats = nullptr,
                                           .gradient_key_floats = nullptr};

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) = FOVEA_ISA::byte_kernels;
}
