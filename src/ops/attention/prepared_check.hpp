// The checks of prepared keys: creating them, appending to them, attending to them.
#pragma once

#include "ops/attention/call.hpp"
#include "ops/attention/prepared_keys.hpp"

namespace fovea {

// The keys are laid out for the context's instruction set.
[[nodiscard]] Status check_prepared_for(const fovea_prepared_keys &keys, const Context &context);

// Reads sizes, and the score's parameters, with their data, as they would be checked in a call: into `call`.
[[nodiscard]] Status check_prepared_creation(const fovea_score *score, const fovea_prepared_keys_sizes *given,
                                             fovea_prepared_keys_sizes *sizes, AttentionCall *call);

// [B,Hkv,n,Dk], [B,n,Dk] or [n,Dk] as the first, for which there is room.
[[nodiscard]] Status check_new_keys(const fovea_prepared_keys &keys, const fovea_tensor *key);

// What attention's own checks would blame on a key, which a call over prepared keys does not have. Reads them into the
// call, in place of a key.
[[nodiscard]] Status read_prepared_keys(const Context &context, const AttentionArguments &arguments,
                                        AttentionCall *call);
[[nodiscard]] Status check_prepared_query(const fovea_prepared_keys &keys, const AttentionProblem &problem);

}  // namespace fovea
