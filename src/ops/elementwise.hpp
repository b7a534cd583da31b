// out = e^x and out = tanh x, element by element.
#pragma once

#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status exp_elements(const Context *context, const fovea_tensor *x, const fovea_tensor *out);
[[nodiscard]] Status tanh_elements(const Context *context, const fovea_tensor *x, const fovea_tensor *out);

}  // namespace fovea
