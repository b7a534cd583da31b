// Attention to a cache whose positions lie on several ranks.
#pragma once

#include "mpi/check.hpp"

namespace fovea::mpi {

[[nodiscard]] Status decode_attention(Handle *handle, const Arguments &arguments,
                                      const fovea_mpi_decode_options *given);

}  // namespace fovea::mpi
