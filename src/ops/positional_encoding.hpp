// The sinusoidal encoding of positions, alone or added to a tensor.
#pragma once

#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status positional_encoding(const Context *given, const fovea_tensor *out,
                                         const fovea_positional_encoding_options *options);

[[nodiscard]] Status add_positional_encoding(const Context *given, const fovea_tensor *x, const fovea_tensor *out,
                                             const fovea_positional_encoding_options *options);

}  // namespace fovea
