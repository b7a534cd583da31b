// The backward pass of ring attention.
#pragma once

#include "mpi/gradient_call.hpp"

namespace fovea::mpi {

[[nodiscard]] Status ring_attention_backward(Handle *handle, const Arguments &arguments,
                                             const fovea_attention_gradients *gradients,
                                             const fovea_mpi_ring_options *given);

}  // namespace fovea::mpi
