// Who has which positions, and copies of a rank's share.
#pragma once

#include "mpi/error.hpp"

namespace fovea::mpi {

struct Place {
  int32_t order, ranks, rank, axis;
};

[[nodiscard]] Status share_length(int32_t order, int64_t length, int32_t ranks, int32_t rank, int64_t *count);
[[nodiscard]] Status list_positions(int32_t order, int64_t length, int32_t ranks, int32_t rank, int64_t *positions);
[[nodiscard]] Status copy_share(const Place &place, const fovea_tensor *whole, const fovea_tensor *share, bool back);

}  // namespace fovea::mpi
