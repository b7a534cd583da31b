#include "read_options.hpp"

#include <cstring>

namespace fovea {

Status read_struct(const char *name, const void *given, void *read, const StructSizes &sizes) {
  constexpr size_t sane_size = 4096;  // no struct of ours will grow past this; a larger number is an unset field
  const size_t known = sizes.known;
  std::memset(read, 0, known);
  std::memcpy(read, &known, sizeof known);
  if (given == nullptr) return FOVEA_OK;
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  const bool newer = size > known && size <= sane_size && size % sizes.alignment == 0;
  if (size != sizes.first && size != known && !newer) {
    return fail(FOVEA_BAD_OPTION, "%s.struct_size is %zu, expected the struct's sizeof, %zu", name, size, known);
  }
  const auto *bytes = static_cast<const unsigned char *>(given);
  for (size_t i = known; i < size; ++i) {
    if (bytes[i] != 0) {
      return fail(FOVEA_BAD_OPTION, "%s sets byte %zu of %zu, but this library (%d.%d.%d) knows only %zu", name, i,
                  size, FOVEA_VERSION_MAJOR, FOVEA_VERSION_MINOR, FOVEA_VERSION_PATCH, known);
    }
  }
  std::memcpy(read, given, size < known ? size : known);
  std::memcpy(read, &known, sizeof known);
  return FOVEA_OK;
}

}  // namespace fovea
