// Which positions of a sequence each rank has.
#pragma once

#include <cstdint>

#include "fovea/mpi.h"

namespace fovea::mpi {

constexpr int64_t largest_length = int64_t{1} << 30;

// Positions first, first + step, ..., which lie beside each other in the rank's tensors from `at` on.
struct Run {
  int64_t first, step, count, at;
};

// A rank's positions: one run, or the two chunks of the zigzag.
struct Share {
  Run runs[2];
  int count;
  int64_t length() const { return runs[0].count + (count > 1 ? runs[1].count : 0); }
};

bool is_order(int32_t order);
const char *order_name(int32_t order);

// Of `length` positions that the library shares out; of FOVEA_MPI_CONTIGUOUS the usual way.
Share share_of(int32_t order, int64_t length, int64_t ranks, int64_t rank);

// With FOVEA_MPI_CONTIGUOUS and any lengths: `count` positions from `first` on.
Share neighbours(int64_t first, int64_t count);

}  // namespace fovea::mpi
