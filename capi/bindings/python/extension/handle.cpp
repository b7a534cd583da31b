#include "handle.hpp"

#include <cstdlib>

namespace fovea_python {
namespace {

void handle_free(PyObject *self) {
  auto *handle = reinterpret_cast<Handle *>(self);
  PyTypeObject *type = Py_TYPE(self);
  if (handle->pointer != nullptr) handle->kind->destroy(handle->pointer);
  Py_XDECREF(handle->keeps);
  std::free(handle->planned);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject *handle_text(PyObject *self) {
  const auto *handle = reinterpret_cast<Handle *>(self);
  return PyUnicode_FromFormat("<%s at %p>", handle->kind->name, handle->pointer);
}

}  // namespace

PyTypeObject *handle_type = nullptr;

bool add_handle_type(PyObject *module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(handle_free)},
                                {Py_tp_repr, reinterpret_cast<void *>(handle_text)},
                                {0, nullptr}};
  static PyType_Spec spec = {"fovea._fovea.Handle", sizeof(Handle), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};
  PyObject *type = PyType_FromSpec(&spec);
  if (type == nullptr) return false;
  handle_type = reinterpret_cast<PyTypeObject *>(type);
  return PyModule_AddObjectRef(module, "Handle", type) == 0;
}

PyObject *new_handle(void *pointer, const HandleKind &kind, PyObject *keeps, PlannedTensors *planned) {
  auto *handle = PyObject_New(Handle, handle_type);
  if (handle == nullptr) {
    kind.destroy(pointer);
    std::free(planned);
    return nullptr;
  }
  handle->pointer = pointer;
  handle->kind = &kind;
  handle->planned = planned;
  handle->users = 0;
  Py_XINCREF(keeps);
  handle->keeps = keeps;
  return reinterpret_cast<PyObject *>(handle);
}

bool start_use(Handle *handle, bool changes) {
  if (handle->users < 0 || (changes && handle->users > 0)) {
    PyErr_Format(PyExc_RuntimeError, "%s is in use by another thread", handle->kind->name);
    return false;
  }
  const Py_ssize_t kept = handle->keeps != nullptr ? PyTuple_Size(handle->keeps) : 0;
  for (Py_ssize_t n = 0; n < kept; ++n) {
    if (start_use(reinterpret_cast<Handle *>(PyTuple_GetItem(handle->keeps, n)), false)) continue;
    while (n-- > 0) end_use(reinterpret_cast<Handle *>(PyTuple_GetItem(handle->keeps, n)), false);
    return false;
  }
  handle->users = changes ? -1 : handle->users + 1;
  return true;
}

void end_use(Handle *handle, bool changes) {
  handle->users = changes ? 0 : handle->users - 1;
  const Py_ssize_t kept = handle->keeps != nullptr ? PyTuple_Size(handle->keeps) : 0;
  for (Py_ssize_t n = 0; n < kept; ++n) end_use(reinterpret_cast<Handle *>(PyTuple_GetItem(handle->keeps, n)), false);
}

}  // namespace fovea_python
