#include "known_types.hpp"

#include <array>
#include <utility>

namespace fovea_python {
namespace {

// An attribute that a type gives its instances, fetched past whatever a subclass or an instance has under its name.
class Descriptor {
 public:
  bool find(PyObject *type, const char *name) {
    PyObject *found = PyObject_GetAttrString(type, name);
    if (found == nullptr) return false;
    auto *get = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(found), Py_tp_descr_get));
    if (get == nullptr) {
      Py_DECREF(found);
      PyErr_Format(PyExc_TypeError, "%s is no attribute of instances", name);
      return false;
    }
    Py_XDECREF(descriptor_);
    descriptor_ = found;
    get_ = get;
    return true;
  }

  PyObject *of(PyObject *object) const {
    return get_(descriptor_, object, reinterpret_cast<PyObject *>(Py_TYPE(object)));
  }

 private:
  PyObject *descriptor_ = nullptr;
  descrgetfunc get_ = nullptr;
};

PyTypeObject *ndarray = nullptr;
Descriptor array_struct, dtype;

// PyTorch, once an array of it has come.
struct {
  PyTypeObject *tensor = nullptr;
  const DlExchange *exchange = nullptr;
  Descriptor is_neg;
  PyCFunction call_is_neg = nullptr;  // the same without Python objects between, found at its first use
} torch;

// A class of a module, if that has been imported.
Reference imported_class(const char *module_name, const char *name) {
  PyObject *modules = PyImport_GetModuleDict();
  const Reference key(PyUnicode_FromString(module_name));
  PyObject *module = modules != nullptr && key ? PyDict_GetItemWithError(modules, key.get()) : nullptr;
  Reference found(module != nullptr ? PyObject_GetAttrString(module, name) : nullptr);
  PyErr_Clear();
  return found && PyType_Check(found.get()) != 0 ? std::move(found) : Reference();
}

// Takes PyTorch's own class alone: one that borrows its capsule for objects of another kind would have them read as
// tensors.
const DlExchange *find_exchange(PyObject *tensor) {
  const Reference capsule(PyObject_GetAttrString(tensor, "__dlpack_c_exchange_api__"));
  const auto *exchange =
      capsule ? static_cast<DlExchange *>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api")) : nullptr;
  PyErr_Clear();
  while (exchange != nullptr && exchange->major > 1) exchange = exchange->older;
  return exchange != nullptr && exchange->look != nullptr ? exchange : nullptr;
}

bool find_torch() {
  if (torch.tensor != nullptr) return true;
  Reference tensor = imported_class("torch", "Tensor");
  if (!tensor) return false;
  if (!torch.is_neg.find(tensor.get(), "is_neg")) {
    PyErr_Clear();
    return false;
  }
  torch.exchange = find_exchange(tensor.get());
  torch.tensor = reinterpret_cast<PyTypeObject *>(tensor.release());
  return true;
}

KnownType read_type(PyTypeObject *type) {
  KnownType one;
  one.type = reinterpret_cast<PyObject *>(type);
  one.is_numpy = PyType_IsSubtype(type, ndarray) != 0;
  if (one.is_numpy) {
    const Reference masked = type != ndarray ? imported_class("numpy.ma", "MaskedArray") : Reference();
    one.is_masked = masked && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject *>(masked.get())) != 0;
    one.runs_code = false;
  } else if (find_torch() && PyType_IsSubtype(type, torch.tensor) != 0) {
    one.is_torch = true;
    one.exchange = torch.exchange;
    one.runs_code = type != torch.tensor || one.exchange == nullptr;
  }
  return one;
}

}  // namespace

bool find_numpy() {
  const Reference numpy(PyImport_ImportModule("numpy"));
  PyObject *type = numpy ? PyObject_GetAttrString(numpy.get(), "ndarray") : nullptr;
  if (type == nullptr) return false;
  if (PyType_Check(type) == 0) {
    Py_DECREF(type);
    PyErr_SetString(PyExc_ImportError, "numpy.ndarray is no type");
    return false;
  }
  ndarray = reinterpret_cast<PyTypeObject *>(type);
  return array_struct.find(type, "__array_struct__") && dtype.find(type, "dtype");
}

KnownType known(PyTypeObject *type) {
  static std::array<KnownType, 8> types;
  static size_t next = 0;
  for (const KnownType &one : types) {
    if (one.type == reinterpret_cast<PyObject *>(type)) return one;
  }
  const KnownType read = read_type(type);  // first, as it may run code that comes here
  KnownType &one = types[next++ % types.size()];
  PyObject *old = one.type;
  Py_INCREF(read.type);  // as long as it is listed, no other type can have its address
  one = read;
  Py_XDECREF(old);
  return one;
}

PyObject *array_struct_of(PyObject *array) { return array_struct.of(array); }

PyObject *dtype_of(PyObject *array) { return dtype.of(array); }

int is_negated(PyObject *tensor) {
  Reference answer;
  if (torch.call_is_neg != nullptr) {
    answer = Reference(torch.call_is_neg(tensor, nullptr));
  } else {
    const Reference method(torch.is_neg.of(tensor));
    if (!method) return -1;
    if (PyCFunction_Check(method.get()) != 0 && PyCFunction_GetFlags(method.get()) == METH_NOARGS) {
      torch.call_is_neg = PyCFunction_GetFunction(method.get());
    }
    answer = Reference(PyObject_CallObject(method.get(), nullptr));
  }
  return answer ? PyObject_IsTrue(answer.get()) : -1;
}

}  // namespace fovea_python
