// Shares of positions: contiguous, zigzag and striped.
#include "mpi/positions.hpp"

#include <algorithm>

#include "mpi/views.hpp"

namespace fovea::mpi {
namespace {

// Chunk `index` of `count`, of which the first ones are longer by one if they do not come out even.
Run chunk(int64_t length, int64_t count, int64_t index, int64_t at) {
  const int64_t least = length / count, longer = length % count;
  return {index * least + std::min(index, longer), 1, least + (index < longer ? 1 : 0), at};
}

}  // namespace

bool is_order(int32_t order) { return order >= FOVEA_MPI_CONTIGUOUS && order <= FOVEA_MPI_STRIPED; }

const char *order_name(int32_t order) {
  switch (order) {
    case FOVEA_MPI_CONTIGUOUS: return "FOVEA_MPI_CONTIGUOUS";
    case FOVEA_MPI_ZIGZAG: return "FOVEA_MPI_ZIGZAG";
    case FOVEA_MPI_STRIPED: return "FOVEA_MPI_STRIPED";
    default: return "of no kind";
  }
}

Share share_of(int32_t order, int64_t length, int64_t ranks, int64_t rank) {
  if (order == FOVEA_MPI_STRIPED) {
    const int64_t count = length > rank ? (length - rank - 1) / ranks + 1 : 0;
    return {{{rank, ranks, count, 0}, {}}, 1};
  }
  if (order == FOVEA_MPI_CONTIGUOUS) return {{chunk(length, ranks, rank, 0), {}}, 1};
  const Run front = chunk(length, 2 * ranks, rank, 0);
  return {{front, chunk(length, 2 * ranks, 2 * ranks - 1 - rank, front.count)}, 2};
}

Share share_in(int32_t order, const int64_t *begin, int ranks, int rank) {
  if (order != FOVEA_MPI_CONTIGUOUS) return share_of(order, begin[ranks], ranks, rank);
  return {{{begin[rank], 1, begin[rank + 1] - begin[rank], 0}, {}}, 1};
}

fovea_tensor places_of(const fovea_tensor &whole, int32_t axis, const Run &run) {
  fovea_tensor places = part_of(whole, axis, run.first, run.count);
  places.strides[axis] *= run.step;
  return places;
}

}  // namespace fovea::mpi
