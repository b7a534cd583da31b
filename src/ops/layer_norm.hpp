// Layer normalisation over the last axis, of x or of x + residual.
#pragma once

#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status layer_norm(const Context *given, const fovea_tensor *x, const fovea_tensor *out,
                                const fovea_layer_norm_options *options);

}  // namespace fovea
