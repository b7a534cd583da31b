// Keys kept in the form the kernel reads. The handle itself is in attention/score_plan.hpp.
#pragma once

#include "ops/attention/score_plan.hpp"

namespace fovea {

[[nodiscard]] Status create_prepared_keys(const fovea_context *given, const fovea_score *score,
                                          const fovea_prepared_keys_sizes *given_sizes, fovea_prepared_keys **keys);
[[nodiscard]] Status append_prepared_keys(const fovea_context *given, fovea_prepared_keys *keys,
                                          const TensorArgument &key);
[[nodiscard]] Status truncate_prepared_keys(fovea_prepared_keys *keys, int64_t length);

}  // namespace fovea
