// The C functions of the library beside the core, over MPI: what they throw becomes a status.
#include "fovea/mpi.h"

#include <exception>
#include <new>

#include "mpi/decode.hpp"
#include "mpi/error.hpp"
#include "mpi/handle.hpp"
#include "mpi/ring.hpp"
#include "mpi/ring_backward.hpp"
#include "mpi/share.hpp"
#include "mpi/ulysses.hpp"

using namespace fovea::mpi;

namespace {

template <class Body>
fovea_status guarded(const Body &body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(FOVEA_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception &error) {
    return fail(FOVEA_INTERNAL_ERROR, "unexpected exception: %s", error.what());
  } catch (...) {
    return fail(FOVEA_INTERNAL_ERROR, "unexpected exception");
  }
}

}  // namespace

const char *fovea_mpi_last_error(void) { return last_error(); }

fovea_status fovea_mpi_create(MPI_Comm communicator, const fovea_context *context, const fovea_mpi_options *options,
                              fovea_mpi **mpi) {
  return guarded([&] { return create(communicator, context, options, mpi); });
}

void fovea_mpi_destroy(fovea_mpi *mpi) { destroy(mpi); }

int32_t fovea_mpi_rank(const fovea_mpi *mpi) { return mpi == nullptr ? -1 : mpi->rank; }

int32_t fovea_mpi_ranks(const fovea_mpi *mpi) { return mpi == nullptr ? 0 : mpi->ranks; }

fovea_status fovea_mpi_last_figures(const fovea_mpi *mpi, fovea_mpi_figures *figures) {
  return guarded([&] { return last_figures(mpi, figures); });
}

fovea_status fovea_mpi_share_length(int32_t order, int64_t length, int32_t ranks, int32_t rank, int64_t *count) {
  return guarded([&] { return share_length(order, length, ranks, rank, count); });
}

fovea_status fovea_mpi_positions(int32_t order, int64_t length, int32_t ranks, int32_t rank, int64_t *positions) {
  return guarded([&] { return list_positions(order, length, ranks, rank, positions); });
}

fovea_status fovea_mpi_share(int32_t order, int32_t ranks, int32_t rank, int32_t axis, const fovea_tensor *whole,
                             const fovea_tensor *share) {
  return guarded([&] { return copy_share({order, ranks, rank, axis}, whole, share, false); });
}

fovea_status fovea_mpi_unshare(int32_t order, int32_t ranks, int32_t rank, int32_t axis, const fovea_tensor *share,
                               const fovea_tensor *whole) {
  return guarded([&] { return copy_share({order, ranks, rank, axis}, whole, share, true); });
}

fovea_status fovea_mpi_ring_attention(fovea_mpi *mpi, const fovea_score *score, const fovea_tensor *query,
                                      const fovea_tensor *key, const fovea_tensor *value, const fovea_tensor *out,
                                      const fovea_attention_options *options, const fovea_mpi_ring_options *ring) {
  return guarded([&] { return ring_attention(mpi, {score, query, key, value, out, options}, ring); });
}

fovea_status fovea_mpi_ring_attention_backward(fovea_mpi *mpi, const fovea_score *score, const fovea_tensor *query,
                                               const fovea_tensor *key, const fovea_tensor *value,
                                               const fovea_tensor *out, const fovea_attention_options *options,
                                               const fovea_attention_gradients *gradients,
                                               const fovea_mpi_ring_options *ring) {
  return guarded([&] {
    return ring_attention_backward(mpi, {score, query, key, value, out, options}, gradients, ring);
  });
}

fovea_status fovea_mpi_decode_attention(fovea_mpi *mpi, const fovea_score *score, const fovea_tensor *query,
                                        const fovea_tensor *key, const fovea_tensor *value, const fovea_tensor *out,
                                        const fovea_attention_options *options,
                                        const fovea_mpi_decode_options *decode) {
  return guarded([&] { return decode_attention(mpi, {score, query, key, value, out, options}, decode); });
}

fovea_status fovea_mpi_ulysses_attention(fovea_mpi *mpi, const fovea_score *score, const fovea_tensor *query,
                                         const fovea_tensor *key, const fovea_tensor *value, const fovea_tensor *out,
                                         const fovea_attention_options *options,
                                         const fovea_mpi_ulysses_options *ulysses) {
  return guarded([&] { return ulysses_attention(mpi, {score, query, key, value, out, options}, ulysses); });
}

fovea_status fovea_mpi_grid_attention(fovea_mpi *within, fovea_mpi *between, const fovea_score *score,
                                      const fovea_tensor *query, const fovea_tensor *key, const fovea_tensor *value,
                                      const fovea_tensor *out, const fovea_attention_options *options,
                                      const fovea_mpi_ring_options *ring) {
  return guarded([&] { return grid_attention({within, between}, {score, query, key, value, out, options}, ring); });
}
