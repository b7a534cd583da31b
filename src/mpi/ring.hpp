// Ring attention: Liu, Zaharia and Abbeel 2023, arXiv:2310.01889.
#pragma once

#include "mpi/check.hpp"

namespace fovea::mpi {

[[nodiscard]] Status ring_attention(Handle *handle, const Arguments &arguments, const fovea_mpi_ring_options *given);

}  // namespace fovea::mpi
