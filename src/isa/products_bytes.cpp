// Products of numbers that are rounded to 8 bits.
#include "isa/product_loops.hpp"
#include "kernels/products/byte_panel.hpp"

namespace fovea::FOVEA_ISA {
namespace {

constexpr MatmulKernels byte_kernels = {.set = FOVEA_SET_NAME,
                                        .panel_columns = panel_columns,
                                        .block_rows = 4 * block_rows<block_vectors>,
                                        .panel_floats = byte_panel_floats,
                                        .pack = pack_bytes,
                                        .block = [](const MatmulTask &task) { multiply_panels<BytePanel>(task); },
                                        .reads_in_place = BytePanel::reads_in_place,
                                        .rows_words = byte_rows_words,
                                        .copy_rows = copy_rows<BytePanel>,
                                        .rows_dtype = Dtype::i8,
                                        .rounded_words = BytePanel::copy_words};

}  // namespace
}  // namespace fovea::FOVEA_ISA

namespace fovea {
extern const MatmulKernels FOVEA_KERNELS(byte_products) = FOVEA_ISA::byte_kernels;
}
