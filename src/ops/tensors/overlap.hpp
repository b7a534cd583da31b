// Whether two tensors share memory.
#pragma once

#include <cstdint>

#include "fovea/fovea.h"

namespace fovea {

// Byte offsets, relative to data, of the first element's start and past the last element's end.
struct Extent {
  int64_t low = 0;
  int64_t high = 0;
};

// False if one does not fit. A tensor without elements leaves *extent as it was.
[[nodiscard]] bool compute_extent(const fovea_tensor &tensor, Extent *extent);

// Whether some byte belongs to an element of both. For tensors whose extents lie in the address space. Exact, unless
// the strides are such that a search of 2^16 steps does not tell: then true.
[[nodiscard]] bool share_memory(const fovea_tensor &a, const fovea_tensor &b);

}  // namespace fovea
