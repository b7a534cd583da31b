// Runs of schedules.
#pragma once

#include "python.hpp"
#include "tables.hpp"

namespace fovea_python {

void set_schedule_buffers(const Buffer *buffers);

// schedule_run(handle, {buffer: array}): each as the schedule was made with; query, out and log_sum_exp may have fewer tokens,
// as long as the present step has no more.
PyObject *schedule_run(PyObject *module, PyObject *arguments);

}  // namespace fovea_python
