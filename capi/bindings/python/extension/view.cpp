// Every way ends in a description as DLPack has it, which fovea_tensor_from_dlpack reads: so what element types there are, and
// what is said of others, is the library's to decide.
#include "view.hpp"

#include <array>
#include <cstring>

#include "errors.hpp"

namespace fovea_python {
namespace {

// Attributes of the few types that arrays have, by type: looking an attribute up in vain costs more than all else here.
struct KnownType {
  PyObject *type = nullptr;
  DlExchange *exchange = nullptr;
  bool is_numpy = false;
};

bool is_numpy_type(PyObject *type) {
  const Reference modules(PyImport_GetModuleDict() != nullptr ? PyUnicode_FromString("numpy") : nullptr);
  PyObject *numpy = modules ? PyDict_GetItemWithError(PyImport_GetModuleDict(), modules.get()) : nullptr;
  if (numpy == nullptr) return false;
  const Reference array(PyObject_GetAttrString(numpy, "ndarray"));
  if (!array) {
    PyErr_Clear();
    return false;
  }
  return PyObject_IsSubclass(type, array.get()) == 1;
}

DlExchange *find_exchange(PyObject *type) {
  const Reference capsule(PyObject_GetAttrString(type, "__dlpack_c_exchange_api__"));
  auto *exchange =
      capsule ? static_cast<DlExchange *>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api")) : nullptr;
  PyErr_Clear();
  while (exchange != nullptr && exchange->major > 1) exchange = exchange->older;
  return exchange != nullptr && exchange->look != nullptr ? exchange : nullptr;
}

const KnownType &known(PyObject *type) {
  static std::array<KnownType, 8> types;
  static size_t next = 0;
  for (const KnownType &one : types) {
    if (one.type == type) return one;
  }
  KnownType &one = types[next++ % types.size()];
  Py_INCREF(type);  // as long as it is listed, no other type can have its address
  Py_XDECREF(one.type);
  one = {type, find_exchange(type), is_numpy_type(type)};
  return one;
}

void refuse(const char *name, fovea_status status, const char *reason) { raise_status(status, name, reason); }

// "query (float64): ...", with the library's message
bool refuse_dtype(const DlTensor &described, const char *name) {
  static constexpr const char *kinds[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const char *kind = described.code < sizeof kinds / sizeof *kinds ? kinds[described.code] : "dtype";
  const Reference text(PyUnicode_FromFormat("%s (%s%d)", name, kind, static_cast<int>(described.bits)));
  const Reference bytes(text ? PyUnicode_AsUTF8String(text.get()) : nullptr);
  if (bytes) raise_status(FOVEA_BAD_DTYPE, PyBytes_AsString(bytes.get()));
  return false;
}

// How an array interface's kind, or a buffer's format, is called in DLPack; false if it has no name there.
bool element_type(char kind, Py_ssize_t size, DlTensor &out) {
  static constexpr struct {
    char kind;
    uint8_t code;
  } codes[] = {{'f', kDlFloat}, {'i', kDlInt}, {'u', kDlUint}, {'b', kDlBool}, {'c', kDlComplex}};
  for (const auto &one : codes) {
    if (one.kind != kind) continue;
    out.code = one.code;
    out.bits = static_cast<uint8_t>(size * 8);
    out.lanes = 1;
    return size <= 16;
  }
  return false;
}

char kind_of_format(const char *format) {
  if (format == nullptr) return 'u';
  if (*format == '@' || *format == '=' || *format == '<') ++format;  // all little-endian on the machines there are
  if (*format == '\0' || (format[1] != '\0' && *format != 'Z')) return 0;
  if (std::strchr("efdg", *format) != nullptr) return 'f';
  if (std::strchr("bhilqn", *format) != nullptr) return 'i';
  if (std::strchr("BHILQNc", *format) != nullptr) return 'u';
  return *format == '?' ? 'b' : *format == 'Z' ? 'c' : 0;
}

// Strides counted in elements. False if one is no multiple of the element's size.
bool in_elements(int rank, const Py_ssize_t *bytes, Py_ssize_t item_size, int64_t *strides) {
  for (int axis = 0; axis < rank; ++axis) {
    if (bytes[axis] % item_size != 0) return false;
    strides[axis] = bytes[axis] / item_size;
  }
  return true;
}

constexpr int most_axes = 64;

}  // namespace

const DlExchange *exchange_of(PyTypeObject *type) { return known(reinterpret_cast<PyObject *>(type)).exchange; }

bool View::open(PyObject *object, const char *name, bool output) {
  const KnownType &type = known(reinterpret_cast<PyObject *>(Py_TYPE(object)));
  bool done = false;
  if (type.exchange != nullptr) {
    if (!from_exchange(object, name, done) || done) return done;
  }
  if (type.is_numpy) {
    if (!from_array_struct(object, name, output, done) || done) return done;
  }
  if (PyObject_CheckBuffer(object) != 0) return from_buffer(object, name, output);
  return from_dlpack(object, name, output);
}

void View::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  Py_CLEAR(keeper_);
}

bool View::take(const DlTensor &described, const char *name) {
  const fovea_status status = fovea_tensor_from_dlpack(&described, &tensor);
  if (status == FOVEA_BAD_DTYPE) return refuse_dtype(described, name);
  if (status != FOVEA_OK) {
    raise_status(status, name);
    return false;
  }
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (described.bits > 8 && address % (described.bits / 8U) != 0) {
    refuse(name, FOVEA_BAD_VALUE, "its data is not aligned to its element size");
    return false;
  }
  return true;
}

bool View::from_exchange(PyObject *object, const char *name, bool &done) {
  DlTensor described{};
  if (known(reinterpret_cast<PyObject *>(Py_TYPE(object))).exchange->look(object, &described) != 0) return false;
  done = take(described, name);
  return done;
}

bool View::from_array_struct(PyObject *object, const char *name, bool output, bool &done) {
  static PyObject *const attribute = PyUnicode_InternFromString("__array_struct__");
  const Reference capsule(PyObject_GetAttr(object, attribute));
  if (!capsule) return false;
  const auto *array = static_cast<const ArrayStruct *>(PyCapsule_GetPointer(capsule.get(), nullptr));
  if (array == nullptr) return false;
  DlTensor described{};
  if (!element_type(array->kind, array->item_size, described)) {
    const Reference dtype(PyObject_GetAttrString(object, "dtype"));
    const Reference text(dtype ? PyObject_Str(dtype.get()) : nullptr);
    if (!text) return false;
    if (PyUnicode_CompareWithASCIIString(text.get(), "bfloat16") != 0) {
      const Reference reason(PyUnicode_FromFormat("elements of dtype %U are not taken", text.get()));
      const Reference encoded(reason ? PyUnicode_AsEncodedString(reason.get(), "ascii", "replace") : nullptr);
      if (encoded) refuse(name, FOVEA_BAD_DTYPE, PyBytes_AsString(encoded.get()));
      return false;
    }
    described.code = kDlBfloat;
    described.bits = 16;
    described.lanes = 1;
  }
  if ((array->flags & kArrayNotSwapped) == 0) {
    refuse(name, FOVEA_BAD_DTYPE, "the bytes of its elements are in the other order");
    return false;
  }
  if (output && (array->flags & kArrayWriteable) == 0) {
    refuse(name, FOVEA_BAD_VALUE, "the array is read-only");
    return false;
  }
  int64_t strides[most_axes];
  if (array->rank > most_axes || !in_elements(array->rank, array->strides, array->item_size, strides)) {
    refuse(name, FOVEA_BAD_STRIDE, "a stride is not a multiple of the element size");
    return false;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  described.data = array->data;
  described.device_type = kDlCpu;
  described.rank = array->rank;
  described.shape = reinterpret_cast<int64_t *>(array->shape);
  described.strides = strides;
  done = take(described, name);
  return done;
}

bool View::from_buffer(PyObject *object, const char *name, bool output) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (output ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object, &buffer_, flags) != 0) {
    if (!output || PyErr_ExceptionMatches(PyExc_BufferError) == 0) return false;
    PyErr_Clear();
    refuse(name, FOVEA_BAD_VALUE, "the buffer is read-only");
    return false;
  }
  has_buffer_ = true;
  DlTensor described{};
  if (!element_type(kind_of_format(buffer_.format), buffer_.itemsize, described)) {
    refuse(name, FOVEA_BAD_DTYPE, "elements of this buffer's format are not taken");
    return false;
  }
  int64_t strides[most_axes];
  if (buffer_.ndim > most_axes || !in_elements(buffer_.ndim, buffer_.strides, buffer_.itemsize, strides)) {
    refuse(name, FOVEA_BAD_STRIDE, "a stride is not a multiple of the element size");
    return false;
  }
  described.data = buffer_.buf;
  described.device_type = kDlCpu;
  described.rank = buffer_.ndim;
  described.shape = reinterpret_cast<int64_t *>(buffer_.shape);
  described.strides = strides;
  return take(described, name);
}

// The capsule is kept, not used up: it frees what it holds when the view is released.
bool View::from_dlpack(PyObject *object, const char *name, bool output) {
  const Reference method(PyObject_GetAttrString(object, "__dlpack__"));
  if (!method) {
    PyErr_Clear();
    const Reference type(PyType_GetName(Py_TYPE(object)));
    if (type)
      PyErr_Format(PyExc_TypeError, "%s: an array is wanted (NumPy, DLPack, buffer protocol), not %U", name,
                   type.get());
    return false;
  }
  const Reference none(PyTuple_New(0));
  const Reference version(Py_BuildValue("{s(ii)}", "max_version", 1, 0));
  if (!none || !version) return false;
  keeper_ = PyObject_Call(method.get(), none.get(), version.get());
  if (keeper_ == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    PyErr_Clear();
    keeper_ = PyObject_CallObject(method.get(), nullptr);
  }
  if (keeper_ == nullptr) return false;
  if (PyCapsule_IsValid(keeper_, "dltensor_versioned") != 0) {
    const auto *managed = static_cast<DlManagedVersioned *>(PyCapsule_GetPointer(keeper_, "dltensor_versioned"));
    if (output && (managed->flags & kDlReadOnly) != 0) {
      refuse(name, FOVEA_BAD_VALUE, "the array is read-only");
      return false;
    }
    return take(managed->tensor, name);
  }
  const auto *managed = static_cast<DlManaged *>(PyCapsule_GetPointer(keeper_, "dltensor"));
  return managed != nullptr && take(managed->tensor, name);
}

}  // namespace fovea_python
