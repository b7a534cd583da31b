// The checks of multi-head attention.
#pragma once

#include "ops/multi_head/call.hpp"

namespace fovea {

// Checks all that needs no data of queries, keys and values, except attention's options; of the weights, only the
// sizes. Fills in the call as far as planning.
[[nodiscard]] Status check_multi_head(const Context *given, const fovea_mha_weights *weights,
                                      const MultiHeadTensors &tensors, const fovea_mha_options *options,
                                      MultiHeadCall *call);

// Checks the data of a planned call, with that of its workspace, which the plan is given too: what rotary says of it,
// and overlaps.
[[nodiscard]] Status check_multi_head_data(const MultiHeadTensors &tensors, void *memory, MultiHeadCall *call);

}  // namespace fovea
