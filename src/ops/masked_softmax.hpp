// Softmax over the last axis, of the first valid_lens keys of each row.
#pragma once

#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status masked_softmax(const Context *given, const fovea_tensor *x, const fovea_tensor *valid_lens,
                                    const fovea_tensor *out, const fovea_masked_softmax_options *options);

}  // namespace fovea
