// Every rejection of this library but those of agreement: arguments that one rank alone can judge.
#pragma once

#include "mpi/call.hpp"
#include "mpi/handle.hpp"
#include "mpi/positions.hpp"

namespace fovea::mpi {

[[nodiscard]] Status check_communicator(MPI_Comm communicator, fovea_mpi **created);
[[nodiscard]] Status check_handle_options(const fovea_mpi_options *given, fovea_mpi_options *read);
[[nodiscard]] Status check_handle(const Handle *handle);
[[nodiscard]] Status check_figures(const Handle *handle, const fovea_mpi_figures *figures);
[[nodiscard]] Status check_ring_options(const fovea_mpi_ring_options *given, fovea_mpi_ring_options *read);
[[nodiscard]] Status check_ulysses_options(const fovea_mpi_ulysses_options *given, fovea_mpi_ulysses_options *read);
[[nodiscard]] Status check_decode_options(const fovea_mpi_decode_options *given, fovea_mpi_decode_options *read);

// Checks for the functions that say who has which positions.
[[nodiscard]] Status check_places(int32_t order, int64_t length, int32_t ranks, int32_t rank);
[[nodiscard]] Status check_result(const int64_t *result, const char *name);
// A tensor of any type whose rank, sizes and data are sound.
[[nodiscard]] Status check_view(const fovea_tensor *tensor, const char *name);
[[nodiscard]] Status check_copy(const fovea_tensor *whole, const fovea_tensor *share, int32_t axis);
[[nodiscard]] Status check_share_size(const fovea_tensor &whole, const fovea_tensor &share, int32_t axis,
                                      int64_t expected);
[[nodiscard]] Status check_written(const char *name, const fovea_tensor &written, const fovea_tensor &read);

// These read a call of attention and judge what is this rank's own, by the core's checks and ours.
[[nodiscard]] Status check_ring_call(const Handle &handle, const Arguments &arguments, int32_t order, Call *call);
[[nodiscard]] Status check_decode_call(const Handle &handle, const Arguments &given, bool from_first_rank, Call *call);
[[nodiscard]] Status check_ulysses_call(const Handle &handle, const Arguments &given, Call *call);

// With what all ranks have stated: whole lengths, and of orders that the library chooses each rank's.
[[nodiscard]] Status check_lengths(const Handle &handle, const WholeLengths &lengths, const Call &call, int32_t order);

[[nodiscard]] Status check_heads(const Handle &handle, const WholeLengths &lengths, const Call &call, int32_t order);

}  // namespace fovea::mpi
