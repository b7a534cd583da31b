// Every way ends in a description as DLPack has it, which fovea_tensor_from_dlpack reads: so what element types there
// are, and what is said of others, is the library's to decide. Nothing that an object says of itself is believed where
// it can be checked: what is left are pointers, which nobody can.
#include "view.hpp"

#include <cstring>

#include "errors.hpp"
#include "memory.hpp"

namespace fovea_python {
namespace {

constexpr int most_axes = 64;

bool refuse(const char *name, fovea_status status, const char *reason) {
  raise_status(status, name, reason);
  return false;
}

bool failed(const char *name) {
  name_error(name);
  return false;
}

// Strides counted in elements. False if one is no multiple of the element's size.
bool in_elements(int rank, const Py_ssize_t *bytes, Py_ssize_t item_size, int64_t *strides) {
  for (int axis = 0; axis < rank; ++axis) {
    if (bytes[axis] % item_size != 0) return false;
    strides[axis] = bytes[axis] / item_size;
  }
  return true;
}

bool refuse_rank(const char *name, long rank) {
  const Reference reason(PyUnicode_FromFormat("rank %ld, expected at most %d", rank, FOVEA_MAX_RANK));
  const Reference bytes(reason ? PyUnicode_AsUTF8String(reason.get()) : nullptr);
  return bytes && refuse(name, FOVEA_BAD_RANK, PyBytes_AsString(bytes.get()));
}

bool is_mask(const char *name) {
  constexpr char mask[] = "mask";
  const size_t length = std::strlen(name), its = std::strlen(mask);
  return length >= its && std::strcmp(name + length - its, mask) == 0;
}

// Whether a buffer of `bytes` holds the elements of its shape.
bool holds_its_shape(Py_ssize_t bytes, int rank, const Py_ssize_t *shape, Py_ssize_t item_size) {
  Py_ssize_t size = item_size;
  bool empty = false, fits = true;
  for (int axis = 0; axis < rank; ++axis) {
    if (shape[axis] < 0) return false;
    empty = empty || shape[axis] == 0;
    fits = fits && !__builtin_mul_overflow(size, shape[axis], &size);
  }
  return empty || (fits && bytes >= size);
}

}  // namespace

bool View::open(PyObject *object, const char *name, bool output, fovea_dtype foreign_dtype) {
  object_ = Py_NewRef(object);
  foreign_dtype_ = foreign_dtype;
  if (Py_TYPE(object) == memory_type) return from_memory(name, output);
  const KnownType type = known(Py_TYPE(object));
  if (type.runs_code) ++foreign_code_runs;
  if (type.is_torch && !settle_sign(name, output)) return false;
  if (type.exchange != nullptr) return open_by(Way::torch, name, output);
  if (type.is_masked)
    return refuse(name, FOVEA_BAD_VALUE, "a masked array, whose mask would not be seen; fill it first");
  if (type.is_numpy) return open_by(Way::numpy, name, output);
  if (PyObject_CheckBuffer(object) != 0) return open_by(Way::buffer, name, output);
  return open_by(Way::capsule, name, output);
}

// Memory of the library's own: nothing of it ever changes.
bool View::from_memory(const char *name, bool output) {
  if (output && is_read_only(object_)) return refuse(name, FOVEA_BAD_VALUE, "the memory is read-only");
  tensor = tensor_of_memory(object_);
  return true;
}

bool View::open_by(Way way, const char *name, bool output) {
  way_ = way;
  switch (way) {
    case Way::torch: return from_torch(name);
    case Way::numpy: return from_numpy(name, output);
    case Way::buffer: return from_buffer(name, output);
    case Way::capsule: return from_dlpack(name, output);
    case Way::none: break;
  }
  return false;
}

void View::release() {
  if (has_buffer_ || managed_ != nullptr || managed_versioned_ != nullptr) give_back();
  Py_CLEAR(weak_);
  Py_CLEAR(object_);
}

void View::give_back() {
  const ErrorAside aside;
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  managed_ = nullptr;
  if (managed_versioned_ != nullptr && managed_versioned_->deleter != nullptr) {
    managed_versioned_->deleter(managed_versioned_);
  }
  managed_versioned_ = nullptr;
}

bool View::same_as(const View &other) const {
  const size_t size = static_cast<size_t>(tensor.rank) * sizeof *tensor.shape;
  return tensor.data == other.tensor.data && tensor.dtype == other.tensor.dtype && tensor.rank == other.tensor.rank &&
         std::memcmp(tensor.shape, other.tensor.shape, size) == 0 &&
         std::memcmp(tensor.strides, other.tensor.strides, size) == 0;
}

bool View::confirm(const char *name) {
  if (way_ == Way::none || way_ == Way::capsule) return true;  // what a capsule holds is ours until we let go of it
  View now;
  now.object_ = Py_NewRef(object_);
  now.foreign_dtype_ = foreign_dtype_;
  if (!now.open_by(way_, name, false)) return false;
  return same_as(now) || refuse(name, FOVEA_BAD_VALUE, "the array was changed while the other arguments were read");
}

bool View::take(const DlTensor &described, const char *name) {
  if (described.rank < 0 || described.rank > FOVEA_MAX_RANK) return refuse_rank(name, described.rank);
  if (described.device_type == kDlCuda)
    return refuse(name, FOVEA_BAD_VALUE, "it lies on a GPU, expected the CPU's memory");
  const fovea_status status = fovea_tensor_from_dlpack(&described, &tensor);
  if (status == FOVEA_BAD_DTYPE) {
    name_elements(described, foreign_);
    return take_foreign(described.rank, described.shape, name);
  }
  if (status != FOVEA_OK) return refuse(name, status, fovea_last_error());
  // Bytes are truth in a mask, two numbers of 4 bits anywhere else.
  if (described.code == kDlUint && !is_mask(name)) tensor.dtype = FOVEA_U8;
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (described.bits > 8 && address % (described.bits / 8U) != 0) {
    return refuse(name, FOVEA_BAD_VALUE, "its data is not aligned to its element size");
  }
  return true;
}

// A tensor that no operation takes, for its dtype.
bool View::take_foreign(int rank, const Py_ssize_t *shape, const char *name) {
  if (rank < 0 || rank > FOVEA_MAX_RANK) return refuse_rank(name, rank);
  if (rank > 0 && shape == nullptr) return refuse(name, FOVEA_BAD_SHAPE, "it has no shape");
  tensor = fovea_tensor_contiguous(nullptr, foreign_dtype_, rank, shape);
  return true;
}

// A negated view, as the imaginary part of a conjugated one is, has the wrong sign in its memory.
bool View::settle_sign(const char *name, bool output) {
  const int negated = is_negated(object_);
  if (negated < 0) return failed(name);
  if (negated == 0) return true;
  if (output) return refuse(name, FOVEA_BAD_VALUE, "a negated view of other memory cannot be written to");
  PyObject *resolved = PyObject_CallMethod(object_, "resolve_neg", nullptr);
  if (resolved == nullptr) return failed(name);
  Py_DECREF(object_);
  object_ = resolved;
  if (known(Py_TYPE(object_)).is_torch && is_negated(object_) == 0) return true;
  PyErr_Clear();
  return refuse(name, FOVEA_BAD_VALUE, "a negated view that does not resolve to a tensor");
}

bool View::from_torch(const char *name) {
  DlTensor described{};
  if (known(Py_TYPE(object_)).exchange->look(object_, &described) != 0) return failed(name);
  return take(described, name);
}

bool View::from_numpy(const char *name, bool output) {
  const Reference capsule(array_struct_of(object_));
  const auto *array =
      capsule ? static_cast<const ArrayStruct *>(PyCapsule_GetPointer(capsule.get(), nullptr)) : nullptr;
  if (array == nullptr) return failed(name);
  DlTensor described{};
  if (!describe_kind(array->kind, array->item_size, described)) {
    const Reference dtype(dtype_of(object_));
    const Reference text(dtype ? PyObject_Str(dtype.get()) : nullptr);
    const Reference bytes(text ? PyUnicode_AsEncodedString(text.get(), "ascii", "replace") : nullptr);
    if (!bytes) return failed(name);
    const char *called = PyBytes_AsString(bytes.get());
    if (array->item_size != 2 || std::strcmp(called, "bfloat16") != 0) {
      copy_name(called, foreign_);
      return take_foreign(array->rank, array->shape, name);
    }
    described.code = kDlBfloat;
    described.bits = 16;
    described.lanes = 1;
  }
  if ((array->flags & kArrayNotSwapped) == 0) {
    return refuse(name, FOVEA_BAD_DTYPE, "the bytes of its elements are in the other order");
  }
  if (output && (array->flags & kArrayWriteable) == 0) return refuse(name, FOVEA_BAD_VALUE, "the array is read-only");
  int64_t strides[most_axes];
  if (array->rank > most_axes) return refuse_rank(name, array->rank);
  if (!in_elements(array->rank, array->strides, array->item_size, strides)) {
    return refuse(name, FOVEA_BAD_STRIDE, "a stride is not a multiple of the element size");
  }
  weak_ = PyWeakref_NewRef(object_, nullptr);
  if (weak_ == nullptr) return failed(name);
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  described.data = array->data;
  described.device_type = kDlCpu;
  described.rank = array->rank;
  described.shape = reinterpret_cast<int64_t *>(array->shape);
  described.strides = strides;
  return take(described, name);
}

// Where the buffer protocol has no name for the elements, as for JAX's bfloat16, DLPack may have one.
bool View::from_buffer(const char *name, bool output) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (output ? PyBUF_WRITABLE : 0);
  buffer_ = {};
  if (PyObject_GetBuffer(object_, &buffer_, flags) != 0) {
    if (PyErr_ExceptionMatches(PyExc_BufferError) == 0) return failed(name);
    if (output) {
      PyErr_Clear();
      return refuse(name, FOVEA_BAD_VALUE, "the buffer is read-only");
    }
    const Reference reason(take_error());
    if (PyObject_HasAttrString(object_, "__dlpack__") != 0) return open_by(Way::capsule, name, output);
    set_error(reason.get());
    return failed(name);
  }
  has_buffer_ = true;
  if (PyErr_Occurred() != nullptr) return failed(name);
  bool known_elements = false;
  if (!describe_buffer(name, known_elements)) return false;
  if (known_elements || PyObject_HasAttrString(object_, "__dlpack__") == 0) return true;
  PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  foreign_[0] = '\0';
  return open_by(Way::capsule, name, output);
}

// Shape, strides and suboffsets may each be NULL, which means bytes in a row, contiguous, and none.
bool View::describe_buffer(const char *name, bool &known_elements) {
  const int rank = buffer_.ndim;
  if (rank < 0 || rank > FOVEA_MAX_RANK) return refuse_rank(name, rank);
  if (buffer_.itemsize <= 0 || buffer_.len < 0) return refuse(name, FOVEA_BAD_DTYPE, "its elements have no size");
  for (int axis = 0; buffer_.suboffsets != nullptr && axis < rank; ++axis) {
    if (buffer_.suboffsets[axis] >= 0)
      return refuse(name, FOVEA_BAD_STRIDE, "its rows lie behind pointers (suboffsets)");
  }
  const Py_ssize_t count = buffer_.len / buffer_.itemsize;
  const Py_ssize_t *shape = buffer_.shape;
  if (shape == nullptr && rank == 1) shape = &count;
  if (shape == nullptr && rank > 1) return refuse(name, FOVEA_BAD_SHAPE, "its buffer has no shape");
  if (!holds_its_shape(buffer_.len, rank, shape, buffer_.itemsize)) {
    return refuse(name, FOVEA_BAD_SHAPE, "its buffer is not as long as its shape asks for");
  }
  DlTensor described{};
  known_elements = describe_format(buffer_.format, buffer_.itemsize, described);
  if (is_in_other_order(buffer_.format)) {
    return refuse(name, FOVEA_BAD_DTYPE, "the bytes of its elements are in the other order");
  }
  if (!known_elements) {
    copy_name(buffer_.format == nullptr || *buffer_.format == '\0' ? "of no format" : buffer_.format, foreign_);
    return take_foreign(rank, shape, name);
  }
  int64_t strides[FOVEA_MAX_RANK];
  if (buffer_.strides != nullptr && !in_elements(rank, buffer_.strides, buffer_.itemsize, strides)) {
    return refuse(name, FOVEA_BAD_STRIDE, "a stride is not a multiple of the element size");
  }
  described.data = buffer_.buf;
  described.device_type = kDlCpu;
  described.rank = rank;
  described.shape = reinterpret_cast<int64_t *>(const_cast<Py_ssize_t *>(shape));
  described.strides = buffer_.strides != nullptr ? strides : nullptr;
  return take(described, name);
}

// The capsule is used up, as DLPack has it: nobody else can free what it holds before the view is released.
bool View::from_dlpack(const char *name, bool output) {
  const Reference method(PyObject_GetAttrString(object_, "__dlpack__"));
  if (!method) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return failed(name);
    PyErr_Clear();
    const Reference type(PyType_GetName(Py_TYPE(object_)));
    if (type) {
      PyErr_Format(PyExc_TypeError, "%s: an array is wanted (NumPy, DLPack, buffer protocol), not %U", name,
                   type.get());
    }
    return false;
  }
  const Reference none(PyTuple_New(0));
  const Reference version(Py_BuildValue("{s(ii)}", "max_version", 1, 0));
  if (!none || !version) return false;
  Reference capsule(PyObject_Call(method.get(), none.get(), version.get()));
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    PyErr_Clear();
    capsule = Reference(PyObject_CallObject(method.get(), nullptr));
  }
  if (!capsule) return failed(name);
  if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned") != 0) {
    auto *managed = static_cast<DlManagedVersioned *>(PyCapsule_GetPointer(capsule.get(), "dltensor_versioned"));
    if (managed->major != 1)
      return refuse(name, FOVEA_BAD_VALUE, "its __dlpack__ speaks a version of DLPack later than 1");
    if (PyCapsule_SetName(capsule.get(), "used_dltensor_versioned") != 0) return false;
    managed_versioned_ = managed;
    if (output && (managed->flags & kDlReadOnly) != 0) return refuse(name, FOVEA_BAD_VALUE, "the array is read-only");
    return take(managed->tensor, name);
  }
  if (PyCapsule_IsValid(capsule.get(), "dltensor") == 0) {
    const Reference type(PyType_GetName(Py_TYPE(capsule.get())));
    if (type) PyErr_Format(PyExc_TypeError, "%s: its __dlpack__ gave no capsule to be used, but %U", name, type.get());
    return false;
  }
  auto *managed = static_cast<DlManaged *>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
  if (PyCapsule_SetName(capsule.get(), "used_dltensor") != 0) return false;
  managed_ = managed;
  return take(managed->tensor, name);
}

}  // namespace fovea_python
