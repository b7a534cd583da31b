// Runs of plans: the quick way for calls that come again and again.
#pragma once

#include "handle.hpp"

namespace fovea_python {

// Plan(handle, buffers, makers): buffers are the arrays planned with, by the names of fovea_attention_buffers, those of
// query, key and value, then out first; makers give new outputs, by name, as (callable, arguments).
bool add_plan_type(PyObject *module, const Buffer *buffers, int count);

}  // namespace fovea_python
