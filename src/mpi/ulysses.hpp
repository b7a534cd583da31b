// Attention by heads: Jacobs et al. 2023, arXiv:2309.14509.
#pragma once

#include "mpi/check.hpp"

namespace fovea::mpi {

// Handles of a grid: of the ranks of a group, and of those with the same number in each group.
struct Grid {
  Handle *within, *between;
};

[[nodiscard]] Status grid_attention(const Grid &grid, const Arguments &arguments, const fovea_mpi_ring_options *given);

[[nodiscard]] Status ulysses_attention(Handle *handle, const Arguments &arguments,
                                       const fovea_mpi_ulysses_options *given);

}  // namespace fovea::mpi
