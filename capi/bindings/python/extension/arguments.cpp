// Arguments((name, kind, value), ...): holds arrays and structs where C reads them, for a function that is called by
// its address. kind is "tensor", "output" or the name of a struct ("fovea_attention_options, read" for a backward pass,
// which writes nothing in it); value is an array, a dict, or None for NULL. libfovea-mpi is called so, which the
// extension does not know.
#include "arguments.hpp"

#include <cstring>
#include <new>

#include "element_types.hpp"
#include "errors.hpp"
#include "frame.hpp"

namespace fovea_python {
namespace {

constexpr Py_ssize_t most = 12;
const Struct *const *all_structs = nullptr;
size_t struct_count = 0;

struct Arguments {
  PyObject_HEAD PyObject *given;  // keeps the names
  Py_ssize_t count;
  Member members[most];
  void *places[most];
  alignas(Frame) std::byte frame[sizeof(Frame)];
};

Arguments &arguments_of(PyObject *self) { return *reinterpret_cast<Arguments *>(self); }
Frame &frame_of(PyObject *self) { return *std::launder(reinterpret_cast<Frame *>(arguments_of(self).frame)); }

// False with Python's error set.
bool describe(PyObject *given, Member &member, PyObject *&value) {
  PyObject *name = nullptr;
  const char *kind = nullptr;
  if (PyTuple_Check(given) == 0) {
    PyErr_SetString(PyExc_TypeError, "Arguments: tuples of name, kind and value are wanted");
    return false;
  }
  if (PyArg_ParseTuple(given, "UsO:Arguments", &name, &kind, &value) == 0) return false;
  member = {PyUnicode_AsUTF8AndSize(name, nullptr), Kind::structure, 0, nullptr, 0, -1};
  if (member.name == nullptr) return false;
  if (std::strcmp(kind, "tensor") == 0 || std::strcmp(kind, "output") == 0) {
    member.kind = *kind == 't' ? Kind::tensor : Kind::output;
    return true;
  }
  for (size_t n = 0; n < struct_count && member.structure == nullptr; ++n) {
    if (std::strcmp(all_structs[n]->name, kind) == 0) member.structure = all_structs[n];
  }
  if (member.structure == nullptr) PyErr_Format(PyExc_TypeError, "Arguments: there is no struct %s", kind);
  return member.structure != nullptr;
}

bool fill_all(PyObject *self, PyObject *given) {
  Arguments &arguments = arguments_of(self);
  const Py_ssize_t count = PyTuple_Size(given);
  if (count > most) {
    PyErr_Format(PyExc_TypeError, "Arguments: at most %zd are taken, not %zd", most, count);
    return false;
  }
  for (; arguments.count < count; ++arguments.count) {
    Member &member = arguments.members[arguments.count];
    PyObject *value = nullptr;
    if (!describe(PyTuple_GetItem(given, arguments.count), member, value)) return false;
    if (!frame_of(self).fill(member, value, &arguments.places[arguments.count])) return false;
  }
  return frame_of(self).confirm();
}

PyObject *arguments_new(PyTypeObject *type, PyObject *given, PyObject *keywords) {
  if (keywords != nullptr && PyDict_Size(keywords) > 0) {
    PyErr_SetString(PyExc_TypeError, "Arguments takes no keywords");
    return nullptr;
  }
  auto *arguments = PyObject_New(Arguments, type);
  if (arguments == nullptr) return nullptr;
  arguments->given = Py_NewRef(given);
  arguments->count = 0;
  new (arguments->frame) Frame;
  Reference self(reinterpret_cast<PyObject *>(arguments));
  return fill_all(self.get(), given) ? self.release() : nullptr;
}

void arguments_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  frame_of(self).~Frame();
  Py_XDECREF(arguments_of(self).given);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject *addresses(PyObject *self, void *) {
  const Arguments &arguments = arguments_of(self);
  Reference all(PyTuple_New(arguments.count));
  for (Py_ssize_t n = 0; all && n < arguments.count; ++n) {
    PyObject *address = PyLong_FromVoidPtr(arguments.places[n]);
    if (address == nullptr || PyTuple_SetItem(all.get(), n, address) != 0) return nullptr;
  }
  return all.release();
}

// named(message): the library's message with Python's names of elements.
PyObject *named(PyObject *self, PyObject *message) {
  const char *text = PyUnicode_AsUTF8AndSize(message, nullptr);
  Frame::Message room;
  return text != nullptr ? with_names(frame_of(self).named(text, room)) : nullptr;
}

}  // namespace

bool add_arguments_type(PyObject *module, const Struct *const *structs, size_t count) {
  all_structs = structs;
  struct_count = count;
  static PyMethodDef methods[] = {{"named", named, METH_O, "named(message): with Python's names of element types"},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {{"addresses", addresses, nullptr, "where each of them lies, 0 for None", nullptr},
                                     {}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void *>(arguments_new)},
                                {Py_tp_dealloc, reinterpret_cast<void *>(arguments_free)},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {0, nullptr}};
  static PyType_Spec spec = {"fovea._fovea.Arguments", sizeof(Arguments), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
  const Reference type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "Arguments", type.get()) == 0;
}

}  // namespace fovea_python
