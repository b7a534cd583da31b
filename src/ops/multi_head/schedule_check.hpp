// The checks of multi-head attention over the sequences of a schedule.
#pragma once

#include "ops/multi_head/call.hpp"

namespace fovea {

// That a schedule, its pages and the call's other options fit the call, or that there is none.
[[nodiscard]] Status check_schedule_of(MultiHeadCall *call);

// The data of what a schedule brings.
[[nodiscard]] Status check_scheduled_data(const MultiHeadCall &call);

}  // namespace fovea
