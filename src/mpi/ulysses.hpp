// Attention by heads: Jacobs et al. 2023, arXiv:2309.14509.
#pragma once

#include "mpi/check.hpp"

namespace fovea::mpi {

[[nodiscard]] Status ulysses_attention(Handle *handle, const Arguments &arguments,
                                       const fovea_mpi_ulysses_options *given);

}  // namespace fovea::mpi
