// A status of the library as a Python exception with the library's message.
#pragma once

#include "python.hpp"

namespace fovea_python {

// set_errors({status: class}, other): which class each status raises; others raise `other`.
PyObject *set_errors(PyObject *module, PyObject *arguments);

// Sets the error for a status; prefix: nullptr, or what the message is about.
void raise_status(fovea_status status, const char *prefix, const char *message);

// The same with the calling thread's message.
inline void raise_status(fovea_status status, const char *prefix = nullptr) {
  raise_status(status, prefix, fovea_last_error());
}

}  // namespace fovea_python
