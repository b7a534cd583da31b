// The thread-local last error of this library.
#include "mpi/error.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace fovea::mpi {
namespace {

thread_local char message[max_message] = "";

}  // namespace

Status fail(Status status, const char *format, ...) {
  char text[max_message];  // the arguments may hold the last message itself
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);  // NOLINT(clang-analyzer-valist.Uninitialized): va_start
  va_end(arguments);
  for (char *c = text; *c != '\0'; ++c) {
    if (*c < ' ' || *c > '~') *c = '?';
  }
  std::memcpy(message, text, sizeof text);
  return status;
}

Status of_core(Status status) {
  if (status == FOVEA_OK) return status;
  return fail(status, "%s", fovea_last_error());
}

const char *last_error() { return message; }

}  // namespace fovea::mpi
