// The element types by name, and their sizes for code that counts in size_t. What else is known of them: types.hpp.
#pragma once

#include <cstddef>

#include "types.hpp"

namespace fovea {

// Bytes of an element; 1 for a number that is no type.
size_t dtype_size(Dtype dtype);

// For messages: "FOVEA_F32"; the number itself where it is no type.
struct DtypeName {
  explicit DtypeName(int32_t dtype);
  char text[24];
};

}  // namespace fovea
