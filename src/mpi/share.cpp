// Copies a rank's share out of a whole tensor and back.
#include "mpi/share.hpp"

#include "mpi/check.hpp"
#include "mpi/views.hpp"

namespace fovea::mpi {
Status share_length(int32_t order, int64_t length, int32_t ranks, int32_t rank, int64_t *count) {
  FOVEA_MPI_CHECK(check_places(order, length, ranks, rank));
  FOVEA_MPI_CHECK(check_result(count, "share_length"));
  *count = share_of(order, length, ranks, rank).length();
  return FOVEA_OK;
}

Status list_positions(int32_t order, int64_t length, int32_t ranks, int32_t rank, int64_t *positions) {
  FOVEA_MPI_CHECK(check_places(order, length, ranks, rank));
  const Share share = share_of(order, length, ranks, rank);
  if (share.length() == 0) return FOVEA_OK;
  FOVEA_MPI_CHECK(check_result(positions, "positions"));
  for (int run = 0; run < share.count; ++run) {
    const Run &of = share.runs[run];
    for (int64_t i = 0; i < of.count; ++i) positions[of.at + i] = of.first + i * of.step;
  }
  return FOVEA_OK;
}

Status copy_share(const Place &place, const fovea_tensor *whole, const fovea_tensor *share, bool back) {
  FOVEA_MPI_CHECK(check_copy(whole, share, place.axis));
  FOVEA_MPI_CHECK(check_places(place.order, whole->shape[place.axis], place.ranks, place.rank));
  const Share runs = share_of(place.order, whole->shape[place.axis], place.ranks, place.rank);
  FOVEA_MPI_CHECK(check_share_size(*whole, *share, place.axis, runs.length()));
  FOVEA_MPI_CHECK(back ? check_written("whole", *whole, *share) : check_written("share", *share, *whole));
  for (int run = 0; run < runs.count; ++run) {
    const fovea_tensor in_whole = places_of(*whole, place.axis, runs.runs[run]);
    const fovea_tensor in_share = part_of(*share, place.axis, runs.runs[run].at, runs.runs[run].count);
    copy_elements(back ? in_share : in_whole, back ? in_whole : in_share);
  }
  return FOVEA_OK;
}

}  // namespace fovea::mpi
