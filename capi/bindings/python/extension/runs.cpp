// Runs of schedules and of planned multi-head attention. The library sees pointers alone, so every array is compared
// with what was planned, which the handle has kept. How many tokens the present step has is asked once nobody can set
// another.
#include "runs.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "errors.hpp"
#include "handle.hpp"
#include "planned.hpp"

namespace fovea_python {
namespace {

const Buffer *buffer_table = nullptr;

// The arrays of a run, by name. Those of fovea_mha_buffers lie there where the run is one of multi-head attention.
struct Data {
  fovea_attention_buffers attention{};
  fovea_mha_buffers mha{};
  bool is_mha;

  explicit Data(bool of_mha) : is_mha(of_mha) {
    attention.struct_size = sizeof attention;
    mha.struct_size = sizeof mha;
    mha.attention = &attention;
  }
  void set(const Buffer &buffer, void *data) {
    const bool there = is_mha && buffer.mha_offset != no_offset;
    char *place = there ? reinterpret_cast<char *>(&mha) + buffer.mha_offset
                        : reinterpret_cast<char *>(&attention) + buffer.offset;
    std::memcpy(place, &data, sizeof data);
  }
};

bool is_one_of(const char *name, std::initializer_list<const char *> names) {
  return std::any_of(names.begin(), names.end(), [&](const char *one) { return std::strcmp(name, one) == 0; });
}

// Whether an array has a row for each token of a step. A schedule's keys and values may be pages.
bool has_tokens(const char *name, bool is_mha) {
  return is_one_of(name, {"query", "out"}) ||
         is_one_of(name, is_mha ? std::initializer_list<const char *>{"key", "value"}
                                : std::initializer_list<const char *>{"log_sum_exp"});
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
  PyErr_SetString(PyExc_TypeError, "a run is given an array that was not planned");
  return false;
}

bool open_buffers(const PlannedTensors &planned, PyObject *arrays, Views &views, Data &data) {
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
    if (!view.open(array.get(), buffer.name, planned.tensors[n].output, -1)) return false;
    data.set(buffer, view.tensor.data);
  }
  for (size_t n = 0; n < views.count() && foreign_code_runs != before; ++n) {
    if (!views[n].confirm(names[n])) return false;
  }
  return true;
}

// tokens: of the present step; -1: there is none, and every array is as it was planned.
bool all_as_planned(const PlannedTensors &planned, const Views &views, int64_t tokens, bool is_mha) {
  for (int n = 0; n < planned.count; ++n) {
    const char *name = buffer_table[planned.tensors[n].buffer].name;
    const int64_t rows = has_tokens(name, is_mha) ? tokens : -1;
    if (!as_planned(name, planned.tensors[n].tensor, views[static_cast<size_t>(n)], rows)) return false;
  }
  return true;
}

bool is_handle_of(const Handle *handle, const char *kind) { return std::strcmp(handle->kind->name, kind) == 0; }

// With Python's error set if it is of another kind.
Handle *expect(PyObject *given, const char *name, const char *kind) {
  auto *handle = reinterpret_cast<Handle *>(given);
  if (handle->planned != nullptr && is_handle_of(handle, kind)) return handle;
  PyErr_Format(PyExc_TypeError, "%s: a %s is wanted, not %R", name, kind, given);
  return nullptr;
}

int64_t tokens_of(const Handle *schedule) {
  return fovea_schedule_positions(static_cast<const fovea_schedule *>(schedule->pointer)).shape[0];
}

// Tokens of the schedule that a plan was made with.
int64_t planned_tokens(const Handle *plan) {
  const Py_ssize_t kept = plan->keeps != nullptr ? PyTuple_Size(plan->keeps) : 0;
  for (Py_ssize_t n = 0; n < kept; ++n) {
    const auto *one = reinterpret_cast<Handle *>(PyTuple_GetItem(plan->keeps, n));
    if (is_handle_of(one, "fovea_schedule")) return tokens_of(one);
  }
  return -1;
}

PyObject *none_or_error(fovea_status status) {
  if (status == FOVEA_OK) Py_RETURN_NONE;
  raise_status(status);
  return nullptr;
}

PyObject *run_mha(Handle *handle, PyObject *arrays, Py_buffer &workspace) {
  Views views;
  Data data(true);
  if (!all_planned(*handle->planned, arrays) || !open_buffers(*handle->planned, arrays, views, data)) return nullptr;
  const Use use(handle);
  if (!use || !all_as_planned(*handle->planned, views, planned_tokens(handle), true)) return nullptr;
  fovea_status status = FOVEA_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = fovea_mha_run(static_cast<const fovea_mha_plan *>(handle->pointer), &data.mha, workspace.buf,
                         static_cast<size_t>(workspace.len));
  Py_END_ALLOW_THREADS;
  return none_or_error(status);
}

}  // namespace

void set_run_buffers(const Buffer *buffers) { buffer_table = buffers; }

PyObject *schedule_run(PyObject *, PyObject *arguments) {
  PyObject *given = nullptr;
  PyObject *arrays = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O!:schedule_run", handle_type, &given, &PyDict_Type, &arrays) == 0) return nullptr;
  Handle *handle = expect(given, "schedule", "fovea_schedule");
  if (handle == nullptr) return nullptr;
  Views views;
  Data data(false);
  if (!all_planned(*handle->planned, arrays) || !open_buffers(*handle->planned, arrays, views, data)) return nullptr;
  const Use use(handle);
  if (!use || !all_as_planned(*handle->planned, views, tokens_of(handle), false)) return nullptr;
  fovea_status status = FOVEA_OK;
  Py_BEGIN_ALLOW_THREADS;
  status = fovea_schedule_run(static_cast<const fovea_schedule *>(handle->pointer), &data.attention, nullptr, 0);
  Py_END_ALLOW_THREADS;
  return none_or_error(status);
}

PyObject *mha_run(PyObject *, PyObject *arguments) {
  PyObject *given = nullptr;
  PyObject *arrays = nullptr;
  Py_buffer workspace;
  if (PyArg_ParseTuple(arguments, "O!O!w*:mha_run", handle_type, &given, &PyDict_Type, &arrays, &workspace) == 0) {
    return nullptr;
  }
  Handle *handle = expect(given, "plan", "fovea_mha_plan");
  PyObject *result = handle == nullptr ? nullptr : run_mha(handle, arrays, workspace);
  const ErrorAside aside;
  PyBuffer_Release(&workspace);
  return result;
}

}  // namespace fovea_python
