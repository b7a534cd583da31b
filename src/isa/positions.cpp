// Kernels of positional encodings.
#include "isa/rowwise_units.hpp"
#include "kernels/positions/rotary.hpp"
#include "kernels/positions/sinusoidal.hpp"

namespace fovea {
extern const PositionKernels FOVEA_KERNELS(positions) = {.encode_rows = FOVEA_ISA::encode_rows,
                                                         .add_rows = FOVEA_ISA::add_rows,
                                                         .rotary_table = FOVEA_ISA::rotary_table,
                                                         .rotary_row_of_positions = FOVEA_ISA::rotary_row_of_positions,
                                                         .rotary_given_row = FOVEA_ISA::rotary_given_row,
                                                         .rotate_rows = FOVEA_ISA::rotate_rows};
}
