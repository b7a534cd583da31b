// Attention over parts of the keys, merged into attention over all of them.
#pragma once

#include "runtime/context.hpp"
#include "status.hpp"

namespace fovea {

[[nodiscard]] Status merge_states(const Context *given, const fovea_tensor *outs, const fovea_tensor *lses,
                                  const fovea_tensor *out, const fovea_tensor *log_sum_exp);

}  // namespace fovea
