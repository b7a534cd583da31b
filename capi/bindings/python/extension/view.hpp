// The memory of a Python object as a fovea_tensor, without a copy: NumPy's arrays, whatever speaks DLPack, and the buffer
// protocol.
#pragma once

#include "dlpack.hpp"
#include "python.hpp"

namespace fovea_python {

// How objects of a type are exchanged without Python objects between; nullptr if that type has no such way.
const DlExchange *exchange_of(PyTypeObject *type);

class View {
 public:
  View() = default;
  View(const View &) = delete;
  View &operator=(const View &) = delete;
  ~View() { release(); }

  // False with Python's error set, whose message begins with `name`. The object must outlive the view.
  bool open(PyObject *object, const char *name, bool output);
  void release();

  fovea_tensor tensor;  // set by open

 private:
  bool from_exchange(PyObject *object, const char *name, bool &done);
  bool from_array_struct(PyObject *object, const char *name, bool output, bool &done);
  bool from_buffer(PyObject *object, const char *name, bool output);
  bool from_dlpack(PyObject *object, const char *name, bool output);
  bool take(const DlTensor &described, const char *name);

  Py_buffer buffer_;
  bool has_buffer_ = false;
  PyObject *keeper_ = nullptr;  // a capsule
};

}  // namespace fovea_python
