// The C functions of statuses and of the version.
#include "status.hpp"

#define FOVEA_STRING_OF(x) #x
#define FOVEA_STRING(x) FOVEA_STRING_OF(x)

const char *fovea_version(void) {
  return FOVEA_STRING(FOVEA_VERSION_MAJOR) "." FOVEA_STRING(FOVEA_VERSION_MINOR) "." FOVEA_STRING(FOVEA_VERSION_PATCH);
}

const char *fovea_status_name(fovea_status status) { return fovea::status_name(status); }

const char *fovea_last_error(void) { return fovea::last_error(); }
