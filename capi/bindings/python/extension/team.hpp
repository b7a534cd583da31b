// Contexts whose calls run on the threads of an OpenMP runtime that the process has anyway.
#pragma once

#include "python.hpp"

namespace fovea_python {

// team_context(parallel, threads): parallel is the address of the runtime's GOMP_parallel
PyObject *team_context(PyObject *, PyObject *arguments);

}  // namespace fovea_python
