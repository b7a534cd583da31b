// The thread-local last error and the names of the statuses.
#include "status.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace fovea {
namespace {

constexpr size_t max_message = 512;
thread_local char message[max_message] = "";

constexpr const char *names[] = {"FOVEA_OK",
                                 "FOVEA_NULL_POINTER",
                                 "FOVEA_BAD_RANK",
                                 "FOVEA_BAD_SHAPE",
                                 "FOVEA_BAD_STRIDE",
                                 "FOVEA_BAD_DTYPE",
                                 "FOVEA_BAD_VALUE",
                                 "FOVEA_BAD_OPTION",
                                 "FOVEA_OVERLAP",
                                 "FOVEA_SIZE_OVERFLOW",
                                 "FOVEA_WORKSPACE_TOO_SMALL",
                                 "FOVEA_OUT_OF_MEMORY",
                                 "FOVEA_UNKNOWN_ISA",
                                 "FOVEA_INTERNAL_ERROR",
                                 "FOVEA_POOL_EXHAUSTED"};
constexpr int32_t name_count = sizeof names / sizeof names[0];
static_assert(name_count == FOVEA_POOL_EXHAUSTED + 1);

// Names that a caller gives stand in messages, and who reads those may be a terminal or a file of lines: what is not
// printable ASCII becomes \n or \x1b.
void set_message(const char *text) {
  size_t length = 0;
  for (; *text != '\0'; ++text) {
    char shown[5] = {*text, '\0'};
    if (*text == '\n') {
      std::strcpy(shown, "\\n");
    } else if (*text < ' ' || *text > '~') {
      std::snprintf(shown, sizeof shown, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(*text)));
    }
    const size_t more = std::strlen(shown);
    if (length + more >= max_message) break;
    std::memcpy(message + length, shown, more);
    length += more;
  }
  message[length] = '\0';
}

}  // namespace

Status fail(Status code, const char *format, ...) {
  char text[max_message];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, max_message, format, arguments);  // NOLINT(clang-analyzer-valist.Uninitialized): va_start
  va_end(arguments);
  set_message(text);
  return code;
}

Status within(const char *where, Status status) {
  if (status == FOVEA_OK) return status;
  char part[max_message];
  std::memcpy(part, message, max_message);
  return fail(status, "%s: %s", where, part);
}

const char *last_error() { return message; }

const char *status_name(Status status) {
  return status >= 0 && status < name_count ? names[status] : "FOVEA_UNKNOWN_STATUS";
}

}  // namespace fovea
