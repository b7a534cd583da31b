#include "errors.hpp"

namespace fovea_python {
namespace {

PyObject *classes = nullptr;
PyObject *other_class = nullptr;

PyObject *class_of(fovea_status status) {
  const Reference key(PyLong_FromLong(status));
  PyObject *found = key && classes != nullptr ? PyDict_GetItemWithError(classes, key.get()) : nullptr;
  if (found != nullptr) return found;
  PyErr_Clear();
  return other_class != nullptr ? other_class : PyExc_RuntimeError;
}

}  // namespace

PyObject *set_errors(PyObject *, PyObject *arguments) {
  PyObject *given = nullptr;
  PyObject *other = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O", &PyDict_Type, &given, &other) == 0) return nullptr;
  Py_INCREF(given);
  Py_XDECREF(classes);
  classes = given;
  Py_INCREF(other);
  Py_XDECREF(other_class);
  other_class = other;
  Py_RETURN_NONE;
}

void raise_status(fovea_status status, const char *prefix, const char *message) {
  if (*message == '\0') message = fovea_status_name(status);
  const Reference text(prefix != nullptr ? PyUnicode_FromFormat("%s: %s", prefix, message)
                                         : PyUnicode_FromString(message));
  if (!text) return;
  PyObject *type = class_of(status);
  const Reference error(PyObject_CallFunctionObjArgs(type, text.get(), nullptr));
  if (!error) return;
  const Reference number(PyLong_FromLong(status));
  if (!number || PyObject_SetAttrString(error.get(), "status", number.get()) != 0) return;
  PyErr_SetObject(type, error.get());
}

}  // namespace fovea_python
