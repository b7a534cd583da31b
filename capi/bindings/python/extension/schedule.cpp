// Runs of schedules. The library sees pointers alone, so every array is compared with what the schedule was made with, whose
// handle has kept that. How many tokens the present step has is asked once nobody can set another.
#include "schedule.hpp"

#include <array>
#include <cstring>

#include "errors.hpp"
#include "handle.hpp"
#include "planned.hpp"

namespace fovea_python {
namespace {

const Buffer *buffer_table = nullptr;

bool has_tokens(const char *name) {
  return std::strcmp(name, "query") == 0 || std::strcmp(name, "out") == 0 || std::strcmp(name, "log_sum_exp") == 0;
}

// A handle in use for as long as this lives.
class Use {
 public:
  explicit Use(Handle *handle) : handle_(start_use(handle, false) ? handle : nullptr) {}
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;
  ~Use() {
    if (handle_ != nullptr) end_use(handle_, false);
  }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  Handle *handle_;
};

// Whether all names are of what was planned. False with Python's error set.
bool all_planned(const PlannedTensors &planned, PyObject *arrays) {
  Py_ssize_t found = 0;
  for (int n = 0; n < planned.count; ++n) {
    const Reference name(PyUnicode_FromString(buffer_table[planned.tensors[n].buffer].name));
    const int has = name ? PyDict_Contains(arrays, name.get()) : -1;
    if (has < 0) return false;
    found += has;
  }
  if (found == PyDict_Size(arrays)) return true;
  PyErr_SetString(PyExc_TypeError, "a run is given an array that the schedule was not made with");
  return false;
}

bool open_buffers(const PlannedTensors &planned, PyObject *arrays, Views &views, fovea_attention_buffers &buffers) {
  const unsigned before = foreign_code_runs;
  std::array<const char *, Views::most> names;
  for (int n = 0; n < planned.count; ++n) {
    const Buffer &buffer = buffer_table[planned.tensors[n].buffer];
    const Reference array(Py_XNewRef(PyDict_GetItemString(arrays, buffer.name)));
    if (!array || array.get() == Py_None) {
      PyErr_Format(PyExc_TypeError, "%s is missing", buffer.name);
      return false;
    }
    names[views.count()] = buffer.name;
    View &view = views.add();
    if (!view.open(array.get(), buffer.name, buffer.output, -1)) return false;
    std::memcpy(reinterpret_cast<char *>(&buffers) + buffer.offset, &view.tensor.data, sizeof view.tensor.data);
  }
  for (size_t n = 0; n < views.count() && foreign_code_runs != before; ++n) {
    if (!views[n].confirm(names[n])) return false;
  }
  return true;
}

bool all_as_planned(const PlannedTensors &planned, const Views &views, int64_t tokens) {
  for (int n = 0; n < planned.count; ++n) {
    const char *name = buffer_table[planned.tensors[n].buffer].name;
    const int64_t rows = has_tokens(name) ? tokens : -1;
    if (!as_planned(name, planned.tensors[n].tensor, views[static_cast<size_t>(n)], rows)) return false;
  }
  return true;
}

}  // namespace

void set_schedule_buffers(const Buffer *buffers) { buffer_table = buffers; }

PyObject *schedule_run(PyObject *, PyObject *arguments) {
  PyObject *given = nullptr;
  PyObject *arrays = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O!:schedule_run", handle_type, &given, &PyDict_Type, &arrays) == 0) return nullptr;
  auto *handle = reinterpret_cast<Handle *>(given);
  if (handle->planned == nullptr || std::strcmp(handle->kind->name, "fovea_schedule") != 0) {
    PyErr_Format(PyExc_TypeError, "schedule: a fovea_schedule is wanted, not %R", given);
    return nullptr;
  }
  Views views;
  fovea_attention_buffers buffers{};
  buffers.struct_size = sizeof buffers;
  if (!all_planned(*handle->planned, arrays) || !open_buffers(*handle->planned, arrays, views, buffers)) return nullptr;
  const Use use(handle);
  const auto *schedule = static_cast<const fovea_schedule *>(handle->pointer);
  if (!use || !all_as_planned(*handle->planned, views, fovea_schedule_positions(schedule).shape[0])) return nullptr;
  fovea_status status = FOVEA_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = fovea_schedule_run(schedule, &buffers, nullptr, 0);
  Py_END_ALLOW_THREADS;
  if (status == FOVEA_OK) Py_RETURN_NONE;
  raise_status(status);
  return nullptr;
}

}  // namespace fovea_python
