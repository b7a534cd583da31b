// A status of the library, or what others raise, as a Python exception whose message names the argument.
#pragma once

#include "python.hpp"

namespace fovea_python {

// set_errors({status: class}, other): which class each status raises; others raise `other`.
PyObject *set_errors(PyObject *module, PyObject *arguments);

// Sets the error for a status; prefix: nullptr, or what the message is about. Element types are called as in Python.
void raise_status(fovea_status status, const char *prefix, const char *message);

// The same with the calling thread's message.
inline void raise_status(fovea_status status, const char *prefix = nullptr) {
  raise_status(status, prefix, fovea_last_error());
}

// Puts "name: " before the message of the error that is set, which becomes the cause of one of the same kind: a
// number's or an array's own code says what is wrong, but not with which argument. Interrupts and the like stay as they
// are.
void name_error(const char *name);

// The error that is set, a new reference; nullptr if none is.
PyObject *take_error();
void set_error(PyObject *error);

}  // namespace fovea_python
