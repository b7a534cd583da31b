// The checks of merging partial attention.
#pragma once

#include "fovea/fovea.h"
#include "status.hpp"

namespace fovea {

// log_sum_exp: null where not wanted.
[[nodiscard]] Status check_merge(const fovea_tensor *outs, const fovea_tensor *lses, const fovea_tensor *out,
                                 const fovea_tensor *log_sum_exp);

}  // namespace fovea
