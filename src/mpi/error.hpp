// How a call of this library fails: a status and, per thread, one line of text.
#pragma once

#include "fovea/fovea.h"

namespace fovea::mpi {

using Status = fovea_status;

constexpr int max_message = 512;

// Records the message and returns the status. Never allocates; what is not printable ASCII becomes '?', and a message
// longer than the buffer is cut.
[[nodiscard, gnu::format(printf, 2, 3)]] Status fail(Status status, const char *format, ...);

// What a function of the core returned: its message becomes ours.
[[nodiscard]] Status of_core(Status status);

#define FOVEA_MPI_CHECK(expression)                                                          \
  do {                                                                                       \
    if (const ::fovea::mpi::Status failed = (expression); failed != FOVEA_OK) return failed; \
  } while (false)

const char *last_error();

}  // namespace fovea::mpi
