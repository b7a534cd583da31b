// Whether an array may stand in for the one that a call was planned with.
#pragma once

#include "view.hpp"

namespace fovea_python {

// False with Python's error set, whose message begins with `name`. rows < 0: of the shape that was planned; else it may
// have fewer rows along its first axis, down to so many. A stride that is never stepped along may be anything.
bool as_planned(const char *name, const fovea_tensor &planned, const View &view, int64_t rows = -1);

}  // namespace fovea_python
