// Runs of plans: the quick way for calls that come again and again.
#pragma once

#include "handle.hpp"

namespace fovea_python {

// Plan(handle, kept, makers, convert), by the names of fovea_attention_buffers: kept are the arrays that runs take if
// they are given no others; makers give new outputs, as (callable, arguments); convert(list, name) makes an array of a
// list.
bool add_plan_type(PyObject *module, const Buffer *buffers, int count);

}  // namespace fovea_python
