#include "memory.hpp"

#include <cstring>

#include "element_types.hpp"
#include "errors.hpp"

namespace fovea_python {
namespace {

struct Memory {
  PyObject_HEAD fovea_tensor tensor;
  PyObject *owner;  // whatever keeps the memory: a handle, bytes, or nullptr where there is no data
  bool read_only;
  Py_ssize_t item_size;
  Py_ssize_t shape[FOVEA_MAX_RANK], strides[FOVEA_MAX_RANK];  // in bytes
};

struct Format {
  fovea_dtype dtype;
  const char *letter;
  Py_ssize_t size;
};
// The buffer protocol has no name for bfloat16: its bits.
constexpr Format formats[] = {{FOVEA_F32, "f", 4}, {FOVEA_F16, "e", 2}, {FOVEA_BF16, "H", 2}, {FOVEA_I32, "i", 4},
                              {FOVEA_I64, "q", 8}, {FOVEA_I8, "b", 1},  {FOVEA_U8, "B", 1}};

const Format *format_of(fovea_dtype dtype) {
  for (const Format &one : formats) {
    if (one.dtype == dtype) return &one;
  }
  PyErr_Format(PyExc_SystemError, "memory of elements of type %d", static_cast<int>(dtype));
  return nullptr;
}

Memory *memory_of(PyObject *self) { return reinterpret_cast<Memory *>(self); }

void memory_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(memory_of(self)->owner);
  PyObject_Free(self);
  Py_DECREF(type);
}

Py_ssize_t element_count(const fovea_tensor &tensor) {
  Py_ssize_t count = 1;
  for (int axis = 0; axis < tensor.rank; ++axis) count *= tensor.shape[axis];
  return count;
}

bool is_contiguous(const fovea_tensor &tensor) {
  const fovea_tensor packed = fovea_tensor_contiguous(nullptr, tensor.dtype, tensor.rank, tensor.shape);
  for (int axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] > 1 && tensor.strides[axis] != packed.strides[axis]) return false;
  }
  return true;
}

PyObject *make(const fovea_tensor &tensor, PyObject *owner, bool read_only) {
  const Format *format = format_of(tensor.dtype);
  auto *memory = format != nullptr ? PyObject_New(Memory, memory_type) : nullptr;
  if (memory == nullptr) return nullptr;
  memory->tensor = tensor;
  memory->owner = Py_XNewRef(owner);
  memory->read_only = read_only;
  memory->item_size = format->size;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    memory->shape[axis] = tensor.shape[axis];
    memory->strides[axis] = tensor.strides[axis] * format->size;
  }
  return reinterpret_cast<PyObject *>(memory);
}

int memory_buffer(PyObject *self, Py_buffer *buffer, int flags) {
  Memory &memory = *memory_of(self);
  buffer->obj = nullptr;
  const bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
  const char *refusal = memory.owner == nullptr                             ? "a layout has no data"
                        : memory.read_only && (flags & PyBUF_WRITABLE) != 0 ? "the memory is read-only"
                        : !strided && !is_contiguous(memory.tensor)         ? "the memory is not contiguous"
                                                                            : nullptr;
  if (refusal != nullptr) {
    PyErr_SetString(PyExc_BufferError, refusal);
    return -1;
  }
  buffer->buf = memory.tensor.data;
  buffer->obj = Py_NewRef(self);
  buffer->len = element_count(memory.tensor) * memory.item_size;
  buffer->itemsize = memory.item_size;
  buffer->readonly = memory.read_only ? 1 : 0;
  buffer->ndim = memory.tensor.rank;
  buffer->format = (flags & PyBUF_FORMAT) != 0 ? const_cast<char *>(format_of(memory.tensor.dtype)->letter) : nullptr;
  buffer->shape = (flags & PyBUF_ND) != 0 ? memory.shape : nullptr;
  buffer->strides = strided ? memory.strides : nullptr;
  buffer->suboffsets = nullptr;
  buffer->internal = nullptr;
  return 0;
}

PyObject *memory_shape(PyObject *self, void *) {
  const fovea_tensor &tensor = memory_of(self)->tensor;
  Reference sizes(PyTuple_New(tensor.rank));
  for (int axis = 0; sizes && axis < tensor.rank; ++axis) {
    PyObject *size = PyLong_FromLongLong(tensor.shape[axis]);
    if (size == nullptr || PyTuple_SetItem(sizes.get(), axis, size) != 0) return nullptr;
  }
  return sizes.release();
}

PyObject *memory_dtype(PyObject *self, void *) {
  return PyUnicode_FromString(name_of_dtype(memory_of(self)->tensor.dtype));
}

// A shape of at most six sizes. False with Python's error set.
bool read_shape(PyObject *sizes, int64_t *shape) {
  for (Py_ssize_t axis = 0; axis < PyTuple_Size(sizes); ++axis) {
    const Reference whole(PyNumber_Index(PyTuple_GetItem(sizes, axis)));
    shape[axis] = whole ? PyLong_AsLongLong(whole.get()) : -1;
    if (PyErr_Occurred() != nullptr) return false;
  }
  return true;
}

}  // namespace

PyTypeObject *memory_type = nullptr;

bool add_memory_type(PyObject *module) {
  static PyGetSetDef attributes[] = {{"shape", memory_shape, nullptr, "Its sizes.", nullptr},
                                     {"dtype", memory_dtype, nullptr, "What its elements are called.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void *>(memory_free)},
                                {Py_bf_getbuffer, reinterpret_cast<void *>(memory_buffer)},
                                {Py_tp_getset, attributes},
                                {0, nullptr}};
  static PyType_Spec spec = {"fovea._fovea.Memory", sizeof(Memory), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};
  PyObject *type = PyType_FromSpec(&spec);
  if (type == nullptr) return false;
  memory_type = reinterpret_cast<PyTypeObject *>(type);
  return PyModule_AddObjectRef(module, "Memory", type) == 0;
}

PyObject *new_memory(const fovea_tensor &tensor, PyObject *owner) { return make(tensor, owner, false); }

PyObject *copied_memory(const fovea_tensor &tensor) {
  const Format *format = format_of(tensor.dtype);
  if (format == nullptr) return nullptr;
  if (!is_contiguous(tensor)) {
    PyErr_SetString(PyExc_SystemError, "a tensor to be copied is not contiguous");
    return nullptr;
  }
  const Py_ssize_t size = element_count(tensor) * format->size;
  const Reference bytes(PyBytes_FromStringAndSize(nullptr, size));
  if (!bytes) return nullptr;
  fovea_tensor copy = tensor;
  copy.data = PyBytes_AsString(bytes.get());
  if (size > 0) std::memcpy(copy.data, tensor.data, static_cast<size_t>(size));
  return make(copy, bytes.get(), true);
}

PyObject *memory_or_none(const fovea_tensor &tensor, PyObject *owner) {
  if (tensor.rank < 0) Py_RETURN_NONE;
  return owner != nullptr ? new_memory(tensor, owner) : copied_memory(tensor);
}

PyObject *layout(PyObject *, PyObject *arguments) {
  int dtype = 0;
  PyObject *sizes = nullptr;
  int64_t shape[FOVEA_MAX_RANK] = {};
  if (PyArg_ParseTuple(arguments, "iO!:layout", &dtype, &PyTuple_Type, &sizes) == 0) return nullptr;
  if (PyTuple_Size(sizes) > FOVEA_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "a shape of %zd sizes, expected at most %d", PyTuple_Size(sizes), FOVEA_MAX_RANK);
    return nullptr;
  }
  if (!read_shape(sizes, shape)) return nullptr;
  return make(fovea_tensor_contiguous(nullptr, dtype, static_cast<int32_t>(PyTuple_Size(sizes)), shape), nullptr,
              false);
}

const fovea_tensor &tensor_of_memory(PyObject *memory) { return memory_of(memory)->tensor; }

bool is_read_only(PyObject *memory) { return memory_of(memory)->read_only; }

}  // namespace fovea_python
