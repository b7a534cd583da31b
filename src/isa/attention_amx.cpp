// Attention of many rows of bfloat16 on AMX's tiles.
#include "isa/unit.hpp"
#include "kernels/attention/amx_kernels.hpp"

namespace fovea {
extern const AttentionKernels FOVEA_KERNELS(dot) = FOVEA_ISA::tile_kernels<FOVEA_ISA::Bfloat16Tiles>();
}
