// Attention of many rows of binary16 on the tiles of AMX-FP16.
#include "isa/unit.hpp"
#include "kernels/attention/amx_kernels.hpp"

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) = FOVEA_ISA::tile_kernels<FOVEA_ISA::Float16Tiles>();
}
