// The C functions of statuses and of the version.
#include "status.hpp"

#include <algorithm>
#include <cstring>

#define FOVEA_STRING_OF(x) #x
#define FOVEA_STRING(x) FOVEA_STRING_OF(x)

const char *fovea_version(void) {
  return FOVEA_STRING(FOVEA_VERSION_MAJOR) "." FOVEA_STRING(FOVEA_VERSION_MINOR) "." FOVEA_STRING(FOVEA_VERSION_PATCH);
}

const char *fovea_status_name(fovea_status status) { return fovea::status_name(status); }

const char *fovea_last_error(void) { return fovea::last_error(); }

size_t fovea_last_error_copy(char *text, size_t size) {
  const char *const message = fovea::last_error();
  const size_t length = std::strlen(message);
  if (text != nullptr && size > 0) {
    const size_t copied = std::min(length, size - 1);
    std::memcpy(text, message, copied);
    text[copied] = '\0';
  }
  return length;
}
