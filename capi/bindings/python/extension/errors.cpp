#include "errors.hpp"

#include "element_types.hpp"

namespace fovea_python {
namespace {

PyObject *classes = nullptr;
PyObject *other_class = nullptr;

// A new reference.
PyObject *class_of(fovea_status status) {
  const Reference key(PyLong_FromLong(status));
  PyObject *found = key && classes != nullptr ? PyDict_GetItemWithError(classes, key.get()) : nullptr;
  PyErr_Clear();
  if (found == nullptr) found = other_class != nullptr ? other_class : PyExc_RuntimeError;
  return Py_NewRef(found);
}

void replace(PyObject *&kept, PyObject *given) {
  PyObject *old = kept;
  kept = Py_NewRef(given);
  Py_XDECREF(old);
}

void raise_text(fovea_status status, PyObject *text) {
  const Reference type(class_of(status));
  const Reference error(PyObject_CallFunctionObjArgs(type.get(), text, nullptr));
  const Reference number(error ? PyLong_FromLong(status) : nullptr);
  if (!number || PyObject_SetAttrString(error.get(), "status", number.get()) != 0) return;
  PyErr_SetObject(type.get(), error.get());
}

}  // namespace

PyObject *set_errors(PyObject *, PyObject *arguments) {
  PyObject *given = nullptr;
  PyObject *other = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O", &PyDict_Type, &given, &other) == 0) return nullptr;
  replace(classes, given);
  replace(other_class, other);
  Py_RETURN_NONE;
}

PyObject *take_error() {
  PyObject *type = nullptr;
  PyObject *error = nullptr;
  PyObject *trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  if (type == nullptr) return nullptr;
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace != nullptr) PyException_SetTraceback(error, trace);
  Py_XDECREF(trace);
  Py_XDECREF(type);
  return error;
}

void set_error(PyObject *error) { PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error)), error); }

void raise_status(fovea_status status, const char *prefix, const char *message) {
  if (*message == '\0') message = fovea_status_name(status);
  const Reference named(with_names(message));
  if (!named) return;
  const Reference text(prefix != nullptr ? PyUnicode_FromFormat("%s: %U", prefix, named.get())
                                         : PyUnicode_FromObject(named.get()));
  if (text) raise_text(status, text.get());
}

void name_error(const char *name) {
  const Reference cause(take_error());
  if (!cause) {
    PyErr_Format(PyExc_TypeError, "%s: what was given failed without saying why", name);
    return;
  }
  const bool is_ordinary = PyErr_GivenExceptionMatches(cause.get(), PyExc_Exception) != 0;
  if (!is_ordinary || PyErr_GivenExceptionMatches(cause.get(), PyExc_MemoryError) != 0) {
    set_error(cause.get());
    return;
  }
  const Reference text(PyUnicode_FromFormat("%s: %S", name, cause.get()));
  if (!text) return;
  if (PyErr_GivenExceptionMatches(cause.get(), PyExc_TypeError) != 0) {
    PyErr_SetObject(PyExc_TypeError, text.get());
  } else {
    raise_text(FOVEA_BAD_VALUE, text.get());
  }
  PyObject *error = take_error();
  if (error == nullptr) return;
  if (error != cause.get()) PyException_SetCause(error, Py_NewRef(cause.get()));
  set_error(error);
  Py_DECREF(error);
}

}  // namespace fovea_python
