// The memory of a Python object as a fovea_tensor, without a copy: NumPy's arrays, whatever speaks DLPack, and the
// buffer protocol.
#pragma once

#include <cstddef>
#include <new>

#include "dlpack.hpp"
#include "element_types.hpp"
#include "known_types.hpp"
#include "python.hpp"

namespace fovea_python {

class View {
 public:
  View() { foreign_[0] = '\0'; }
  View(const View &) = delete;
  View &operator=(const View &) = delete;
  ~View() { release(); }

  // False with Python's error set, whose message begins with `name`. The view keeps the object.
  // Elements of a type that the library has no number for are given foreign_dtype as theirs, and their name is kept:
  // the library refuses them in its own words, which say what the argument takes.
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
  bool from_memory(const char *name, bool output);
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
  PyObject *weak_ = nullptr;    // owned: NumPy does not resize an array that has a weak reference, whoever asks for it
  Way way_ = Way::none;
  bool has_buffer_ = false;
  Py_buffer buffer_;
  DlManaged *managed_ = nullptr;  // owned, as are
  DlManagedVersioned *managed_versioned_ = nullptr;
  fovea_dtype foreign_dtype_ = 0;
  ElementName foreign_;
};

// The views of one call, opened one after the other.
class Views {
 public:
  static constexpr size_t most = 56;

  Views() = default;
  Views(const Views &) = delete;
  Views &operator=(const Views &) = delete;
  ~Views() {
    while (count_ > 0) (*this)[--count_].~View();
  }

  // A view to be opened, which is one of these whether that succeeds or not. There must be room.
  View &add() { return *new (memory_ + count_++ * sizeof(View)) View; }
  size_t count() const { return count_; }
  View &operator[](size_t n) { return *std::launder(reinterpret_cast<View *>(memory_ + n * sizeof(View))); }
  const View &operator[](size_t n) const {
    return *std::launder(reinterpret_cast<const View *>(memory_ + n * sizeof(View)));
  }

 private:
  alignas(View) std::byte memory_[most * sizeof(View)];
  size_t count_ = 0;
};

}  // namespace fovea_python
