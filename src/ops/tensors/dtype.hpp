// The element types by name, and their sizes for code that counts in size_t. More about them is in types.hpp.
#pragma once

#include <cstddef>

#include "types.hpp"

namespace fovea {

// Bytes of an element; 1 for a number that is no type.
size_t dtype_size(Dtype dtype);

// For messages, behind FOVEA_F32: the types beside it that operations take in this build.
#if FOVEA_HAS_F16 && FOVEA_HAS_BF16
constexpr const char *or_16_bits = ", FOVEA_F16 or FOVEA_BF16";
#elif FOVEA_HAS_F16
constexpr const char *or_16_bits = " or FOVEA_F16 (built without FOVEA_BF16)";
#elif FOVEA_HAS_BF16
constexpr const char *or_16_bits = " or FOVEA_BF16 (built without FOVEA_F16)";
#else
constexpr const char *or_16_bits = " (built without FOVEA_F16 and FOVEA_BF16)";
#endif

// For messages: "FOVEA_F32"; the number itself where it is no type.
struct DtypeName {
  explicit DtypeName(int32_t dtype);
  char text[24];
};

}  // namespace fovea
