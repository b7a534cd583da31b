// Python's stable ABI, so that one build serves 3.11 and all later ones. No C++ exception is thrown in the extension:
// what fails sets Python's error and returns false or nullptr.
#pragma once

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fovea/fovea.h>

#include <cstddef>
#include <cstdint>

namespace fovea_python {

// How often code that is not ours has run: whoever reads one array, then asks another object for its memory, cannot
// know that the first is still where it was.
inline unsigned foreign_code_runs = 0;

// Puts the error that is set aside for as long as code of others is to run that must not meet one, and drops what that
// sets.
class ErrorAside {
 public:
  ErrorAside() { PyErr_Fetch(&type_, &error_, &trace_); }
  ErrorAside(const ErrorAside &) = delete;
  ErrorAside &operator=(const ErrorAside &) = delete;
  ~ErrorAside() { PyErr_Restore(type_, error_, trace_); }

 private:
  PyObject *type_ = nullptr;
  PyObject *error_ = nullptr;
  PyObject *trace_ = nullptr;
};

// An owned reference.
class Reference {
 public:
  Reference() = default;
  explicit Reference(PyObject *object) : object_(object) {}
  Reference(Reference &&other) noexcept : object_(other.release()) {}
  Reference &operator=(Reference &&other) noexcept {
    Py_XDECREF(object_);
    object_ = other.release();
    return *this;
  }
  ~Reference() { Py_XDECREF(object_); }

  PyObject *get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  PyObject *release() {
    PyObject *object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  PyObject *object_ = nullptr;
};

}  // namespace fovea_python
