// How a call fails: a code and, per thread, one line of text.
#pragma once

#include "fovea/fovea.h"

namespace fovea {

using Status = fovea_status;

// Records the message for fovea_last_error() and returns the code: `return fail(FOVEA_BAD_SHAPE, "...", ...)`. Never
// allocates; what is not printable ASCII is escaped, and a message longer than the buffer is cut.
[[nodiscard, gnu::format(printf, 2, 3)]] Status fail(Status code, const char *format, ...);

// A failed part of a call: the message gets "where: " in front. FOVEA_OK passes.
[[nodiscard]] Status within(const char *where, Status status);

// Runs checks in order until one fails, which ends the function.
#define FOVEA_CHECK(expression)                                                         \
  do {                                                                                  \
    if (const ::fovea::Status failed = (expression); failed != FOVEA_OK) return failed; \
  } while (false)

const char *last_error();
const char *status_name(Status status);

}  // namespace fovea
