// Rotary position embedding.
#pragma once

#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status rotary(const Context *given, const fovea_tensor *x, const fovea_tensor *out,
                            const fovea_rotary_options *options);

}  // namespace fovea
