// Runs of schedules and of planned multi-head attention.
#pragma once

#include "python.hpp"
#include "tables.hpp"

namespace fovea_python {

void set_run_buffers(const Buffer *buffers);

// schedule_run(handle, {buffer: array}): each as the schedule was made with; query, out and log_sum_exp may have fewer
// tokens, as long as the present step has no more.
PyObject *schedule_run(PyObject *module, PyObject *arguments);

// mha_run(handle, {buffer: array}, workspace): likewise, workspace being writable bytes. With a schedule, rows may have
// fewer tokens than were planned.
PyObject *mha_run(PyObject *module, PyObject *arguments);

}  // namespace fovea_python
