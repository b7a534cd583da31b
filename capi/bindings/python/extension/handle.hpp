// What the library made and hands out by pointer, as a Python object that destroys it.
#pragma once

#include "python.hpp"
#include "tables.hpp"

namespace fovea_python {

struct Handle {
  PyObject_HEAD void *pointer;
  const HandleKind *kind;
  PyObject *keeps;          // handles that must outlive it: a plan's context and prepared keys, a schedule's context
  PlannedTensors *planned;  // a plan's or a schedule's, else nullptr
  int users;                // calls that read it at this moment, -1: one that changes it
};

extern PyTypeObject *handle_type;
bool add_handle_type(PyObject *module);

// "fovea_plan", "fovea_kv_pool", ...: those of the tables, by number
const char *handle_name(int kind);

// Takes the pointer and planned (from malloc), which it destroys if the object cannot be made. keeps is borrowed, may
// be nullptr, as planned may.
PyObject *new_handle(void *pointer, const HandleKind &kind, PyObject *keeps, PlannedTensors *planned);

PyObject *new_context(fovea_context *context);  // likewise

// Between these a call uses the handle. The library leaves it to callers not to change what is in use; in Python that
// is an error, not a crash. What it keeps is in use too.
bool start_use(Handle *handle, bool changes);
void end_use(Handle *handle, bool changes);

}  // namespace fovea_python
