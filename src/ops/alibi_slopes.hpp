// The slopes of ALiBi.
#pragma once

#include "status.hpp"

namespace fovea {

[[nodiscard]] Status alibi_slopes(const fovea_tensor *out);

}  // namespace fovea
