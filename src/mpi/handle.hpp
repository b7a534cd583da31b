// The handle: a communicator of our own, memory that calls share, and what the last call did.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

#include "fovea/mpi.h"
#include "mpi/error.hpp"

namespace fovea::mpi {

// Memory that only grows, aligned to a cache line. What it held is lost when it grows.
class Memory {
 public:
  // False if there is none.
  bool reserve(size_t bytes);
  char *data() const { return aligned_; }
  // Never freed: a message may still be on its way into it.
  void abandon() { (void)memory_.release(); }

 private:
  std::unique_ptr<char[]> memory_;
  char *aligned_ = nullptr;
  size_t bytes_ = 0;
};

enum class Use {
  agreed,
  lengths,
  sent,
  received,
  state,
  whole,
  gradients,
  parameters,
  count
};  // what a call keeps where

}  // namespace fovea::mpi

struct fovea_mpi {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0, ranks = 1;
  const fovea_context *context = nullptr;
  int64_t message_bytes = 0;
  bool broken = false;  // a function of MPI failed
  fovea::mpi::Memory memory[static_cast<int>(fovea::mpi::Use::count)];
  fovea_mpi_figures figures = {};

  fovea::mpi::Memory &of(fovea::mpi::Use use) { return memory[static_cast<int>(use)]; }
  // Where each rank's queries and keys begin, [2][ranks + 1]; and how far runs of keys go, [ranks][2].
  int64_t *begins() { return reinterpret_cast<int64_t *>(of(fovea::mpi::Use::lengths).data()); }
  int *steps() { return reinterpret_cast<int *>(begins() + 2 * (ranks + 1)); }
  static size_t lengths_bytes(int ranks) {
    return static_cast<size_t>(ranks + 1) * (2 * sizeof(int64_t) + 2 * sizeof(int));
  }
  void begin_call() {
    figures = {};
    figures.struct_size = sizeof figures;
  }
};

namespace fovea::mpi {

using Handle = fovea_mpi;

// What a function of MPI returned: MPI_SUCCESS is FOVEA_OK, anything else breaks the handle.
[[nodiscard]] Status of_mpi(Handle &handle, int code, const char *function);
// How many bytes a message has that a function of MPI received: others than expected break the handle, too.
[[nodiscard]] Status check_bytes(Handle &handle, int bytes, int expected, const char *function);

[[nodiscard]] Status create(MPI_Comm communicator, const fovea_context *context, const fovea_mpi_options *options,
                            fovea_mpi **created);
void destroy(Handle *handle);
[[nodiscard]] Status last_figures(const Handle *handle, fovea_mpi_figures *figures);

}  // namespace fovea::mpi
