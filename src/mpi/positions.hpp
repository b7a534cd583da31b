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

// A rank's share of `length` positions that the library shares out; FOVEA_MPI_CONTIGUOUS: in the usual way.
Share share_of(int32_t order, int64_t length, int64_t ranks, int64_t rank);

// A rank's share where each rank's positions begin at begin[rank]; begin[ranks] is their number.
Share share_in(int32_t order, const int64_t *begin, int ranks, int rank);

// The view of a run of positions along an axis of a whole tensor.
fovea_tensor places_of(const fovea_tensor &whole, int32_t axis, const Run &run);

}  // namespace fovea::mpi
