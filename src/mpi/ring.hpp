// Ring attention: Liu, Zaharia and Abbeel 2023, arXiv:2310.01889.
#pragma once

#include "mpi/check.hpp"

namespace fovea::mpi {

[[nodiscard]] Status ring_attention(Handle *handle, const Arguments &arguments, const fovea_mpi_ring_options *given);

// What must be the same on all ranks of a ring.
void state_ring(const Call &call, const fovea_mpi_ring_options &options, Statement *statement);

}  // namespace fovea::mpi
