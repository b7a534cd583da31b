#include "frame.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "errors.hpp"

namespace fovea_python {
namespace {

// What the n-th array's elements are called to the library if it has no number for them.
constexpr fovea_dtype first_foreign = 1 << 30;
constexpr fovea_dtype foreign_dtype(size_t n) { return first_foreign + static_cast<fovea_dtype>(n); }

template <class Number>
bool put_integer(const char *name, PyObject *value, void *place) {
  const Reference whole(PyNumber_Index(value));
  if (!whole) {
    name_error(name);
    return false;
  }
  bool fits = false;
  Number number = 0;
  if constexpr (std::numeric_limits<Number>::is_signed) {
    const long long wide = PyLong_AsLongLong(whole.get());
    number = static_cast<Number>(wide);
    fits = number == wide && PyErr_Occurred() == nullptr;
  } else {
    const unsigned long long wide = PyLong_AsUnsignedLongLong(whole.get());
    number = static_cast<Number>(wide);
    fits = number == wide && PyErr_Occurred() == nullptr;
  }
  if (!fits) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s: %S is out of range", name, whole.get());
    return false;
  }
  std::memcpy(place, &number, sizeof number);
  return true;
}

void put_pointer(const void *pointer, void *place) { std::memcpy(place, &pointer, sizeof pointer); }

bool too_many() {
  PyErr_SetString(PyExc_SystemError, "a call takes more than the extension has room for");
  return false;
}

}  // namespace

Frame::~Frame() {
  while (use_count_ > 0) {
    --use_count_;
    end_use(uses_[use_count_].handle, uses_[use_count_].changes);
    Py_DECREF(reinterpret_cast<PyObject *>(uses_[use_count_].handle));
  }
  if (has_bytes_) {
    const ErrorAside aside;
    PyBuffer_Release(&bytes_);
  }
  Py_XDECREF(text_);
}

bool Frame::fill(const Member &member, PyObject *value, void *place) {
  switch (member.kind) {
    case Kind::tensor:
    case Kind::output: return fill_view(member, value, place);
    case Kind::structure: return fill_struct(member, value, place);
    case Kind::handle:
    case Kind::changed_handle: return fill_handle(member, value, place);
    case Kind::text: return fill_text(member, value, place);
    case Kind::new_handle: put_pointer(nullptr, place); return true;
    default: return fill_number(member, value, place);
  }
}

bool Frame::fill_argument(const Member &member, PyObject *value, Slot &slot) {
  if (member.kind == Kind::bytes || member.kind == Kind::changed_bytes) return fill_bytes(member, value, slot);
  if (member.kind == Kind::new_structure) {
    slot.pointer = new_struct(*member.structure);
    return slot.pointer != nullptr;
  }
  if (member.kind == Kind::new_i64) {
    slot.i64 = 0;
    return true;
  }
  return fill(member, value, &slot);
}

bool Frame::confirm() {
  if (foreign_code_runs == foreign_code_before_) return true;
  for (size_t n = 0; n < views_.count(); ++n) {
    if (!views_[n].confirm(members_[n]->name)) return false;
  }
  return true;
}

const char *Frame::named(const char *message, Message &room) const {
  char number[32];
  for (size_t n = 0; n < views_.count(); ++n) {
    std::snprintf(number, sizeof number, "dtype %d,", static_cast<int>(foreign_dtype(n)));
    const char *found = views_[n].is_foreign() ? std::strstr(message, number) : nullptr;
    if (found == nullptr) continue;
    std::snprintf(room, sizeof room, "%.*sdtype %s,%s", static_cast<int>(found - message), message,
                  views_[n].dtype_name(), found + std::strlen(number));
    return room;
  }
  return message;
}

void Frame::raise(fovea_status status) const {
  Message room;
  raise_status(status, nullptr, named(fovea_last_error(), room));
}

PlannedTensors *Frame::planned() const {
  auto *planned = static_cast<PlannedTensors *>(std::calloc(1, sizeof(PlannedTensors)));
  if (planned == nullptr) PyErr_NoMemory();
  for (int buffer = 0; planned != nullptr && buffer < most_buffers; ++buffer) {
    for (size_t n = 0; n < views_.count(); ++n) {
      if (members_[n]->buffer != buffer) continue;
      planned->tensors[planned->count++] = {buffer, views_[n].tensor, members_[n]->kind == Kind::output};
    }
  }
  return planned;
}

PyObject *Frame::handles_used() const {
  PyObject *tuple = PyTuple_New(static_cast<Py_ssize_t>(use_count_));
  for (size_t n = 0; tuple != nullptr && n < use_count_; ++n) {
    auto *object = reinterpret_cast<PyObject *>(uses_[n].handle);
    Py_INCREF(object);
    PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(n), object);
  }
  return tuple;
}

bool Frame::fill_number(const Member &member, PyObject *value, void *place) const {
  if (PyLong_CheckExact(value) == 0 && PyFloat_CheckExact(value) == 0 && PyBool_Check(value) == 0) ++foreign_code_runs;
  switch (member.kind) {
    case Kind::i32: return put_integer<int32_t>(member.name, value, place);
    case Kind::u32: return put_integer<uint32_t>(member.name, value, place);
    case Kind::i64: return put_integer<int64_t>(member.name, value, place);
    case Kind::u64: return put_integer<uint64_t>(member.name, value, place);
    case Kind::size: return put_integer<size_t>(member.name, value, place);
    default: break;
  }
  const double wide = PyFloat_AsDouble(value);
  if (wide == -1 && PyErr_Occurred() != nullptr) {
    name_error(member.name);
    return false;
  }
  const auto number = static_cast<float>(wide);  // an infinity where it does not fit, which the library refuses
  std::memcpy(place, &number, sizeof number);
  return true;
}

bool Frame::fill_text(const Member &member, PyObject *value, void *place) {
  put_pointer(nullptr, place);
  if (value == Py_None) return true;
  if (PyUnicode_Check(value) == 0) {
    PyErr_Format(PyExc_TypeError, "%s: a str is wanted", member.name);
    return false;
  }
  if (text_ != nullptr) return too_many();
  text_ = PyUnicode_AsUTF8String(value);
  char *bytes = nullptr;
  if (text_ == nullptr ||
      PyBytes_AsStringAndSize(text_, &bytes, nullptr) != 0) {  // which refuses one with a NUL inside
    name_error(member.name);
    return false;
  }
  put_pointer(bytes, place);
  return true;
}

bool Frame::fill_view(const Member &member, PyObject *value, void *place) {
  put_pointer(nullptr, place);
  if (value == Py_None) return true;
  const size_t n = views_.count();
  if (n == Views::most) return too_many();
  members_[n] = &member;
  View &view = views_.add();
  if (!view.open(value, member.name, member.kind == Kind::output, foreign_dtype(n))) return false;
  put_pointer(&view.tensor, place);
  return true;
}

std::byte *Frame::new_struct(const Struct &structure) {
  if (struct_used_ + structure.size > struct_bytes) {
    too_many();
    return nullptr;
  }
  std::byte *bytes = structs_ + struct_used_;
  struct_used_ +=
      (structure.size + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
  std::memset(bytes, 0, structure.size);
  std::memcpy(bytes, &structure.size, sizeof structure.size);
  return bytes;
}

bool Frame::fill_struct(const Member &member, PyObject *value, void *place) {
  put_pointer(nullptr, place);
  if (value == Py_None) return true;
  if (PyDict_Check(value) == 0) {
    PyErr_Format(PyExc_TypeError, "%s: a dict is wanted", member.name);
    return false;
  }
  const Struct &structure = *member.structure;
  std::byte *bytes = new_struct(structure);
  if (bytes == nullptr) return false;
  Py_ssize_t at = 0;
  PyObject *key = nullptr;
  PyObject *item = nullptr;
  while (PyDict_Next(value, &at, &key, &item) != 0) {
    // Reading one item may run code that takes it, or others, out of the dict.
    const Reference kept_key(Py_NewRef(key));
    const Reference kept_item(Py_NewRef(item));
    if (PyUnicode_Check(key) == 0) {
      PyErr_Format(PyExc_TypeError, "%s: its members' names are str, not %R", member.name, key);
      return false;
    }
    const Member *found = nullptr;
    for (int n = 0; n < structure.count && found == nullptr; ++n) {
      if (PyUnicode_CompareWithASCIIString(key, structure.members[n].name) == 0) found = &structure.members[n];
    }
    if (found == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s has no member %R", structure.name, key);
      return false;
    }
    if (!fill(*found, item, bytes + found->offset)) return false;
  }
  put_pointer(bytes, place);
  return true;
}

bool Frame::fill_handle(const Member &member, PyObject *value, void *place) {
  put_pointer(nullptr, place);
  if (value == Py_None) return true;
  auto *handle = reinterpret_cast<Handle *>(value);
  if (Py_TYPE(value) != handle_type || std::strcmp(handle->kind->name, handle_name(member.handle_kind)) != 0) {
    PyErr_Format(PyExc_TypeError, "%s: a %s is wanted, not %R", member.name, handle_name(member.handle_kind), value);
    return false;
  }
  if (use_count_ == most_uses) return too_many();
  const bool changes = member.kind == Kind::changed_handle;
  if (!start_use(handle, changes)) return false;
  Py_INCREF(value);
  uses_[use_count_++] = {handle, changes};
  put_pointer(handle->pointer, place);
  return true;
}

bool Frame::fill_bytes(const Member &member, PyObject *value, Slot &slot) {
  slot.pointer = nullptr;
  slot.length = 0;
  if (value == Py_None) return true;
  if (has_bytes_) return too_many();
  const int flags = member.kind == Kind::changed_bytes ? PyBUF_WRITABLE : PyBUF_SIMPLE;
  ++foreign_code_runs;
  bytes_ = {};
  if (PyObject_GetBuffer(value, &bytes_, flags) != 0) {
    name_error(member.name);
    return false;
  }
  has_bytes_ = true;
  if (bytes_.len < 0 || (bytes_.len > 0 && bytes_.buf == nullptr) || PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s: its buffer holds nothing", member.name);
    return false;
  }
  slot.pointer = bytes_.buf;
  slot.length = static_cast<size_t>(bytes_.len);
  return true;
}

}  // namespace fovea_python
