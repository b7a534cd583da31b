// The memory of a Python object as a fovea_tensor, without a copy: NumPy's arrays, whatever speaks DLPack, and the buffer
// protocol.
#pragma once

#include "dlpack.hpp"
#include "element_types.hpp"
#include "known_types.hpp"
#include "python.hpp"

namespace fovea_python {

class View {
 public:
  View() = default;
  View(const View &) = delete;
  View &operator=(const View &) = delete;
  ~View() { release(); }

  // False with Python's error set, whose message begins with `name`. The view keeps the object.
  // Elements of a type that the library has no number for are given foreign_dtype as theirs, and their name is kept: the
  // library refuses them in its own words, which say what the argument takes.
  bool open(PyObject *object, const char *name, bool output, fovea_dtype foreign_dtype);
  void release();

  // Whether the memory is still where it was, now that code of others has run. False with Python's error set.
  bool confirm(const char *name);

  // What the elements are called, if not as the library calls them.
  bool is_foreign() const { return foreign_[0] != '\0'; }
  const char *dtype_name() const { return is_foreign() ? foreign_ : name_of_dtype(tensor.dtype); }

  fovea_tensor tensor;  // set by open

 private:
  enum class Way : uint8_t { none, torch, numpy, buffer, capsule };

  bool open_by(Way way, const char *name, bool output);
  bool settle_sign(const char *name, bool output);
  bool from_torch(const char *name);
  bool from_numpy(const char *name, bool output);
  bool from_buffer(const char *name, bool output);
  bool describe_buffer(const char *name, bool &known_elements);
  bool from_dlpack(const char *name, bool output);
  bool take(const DlTensor &described, const char *name);
  bool take_foreign(int rank, const Py_ssize_t *shape, const char *name);
  bool same_as(const View &other) const;
  void give_back();

  PyObject *object_ = nullptr;  // owned
  Way way_ = Way::none;
  bool has_buffer_ = false;
  Py_buffer buffer_;
  DlManaged *managed_ = nullptr;  // owned, as are
  DlManagedVersioned *managed_versioned_ = nullptr;
  fovea_dtype foreign_dtype_ = 0;
  ElementName foreign_ = "";
};

}  // namespace fovea_python
