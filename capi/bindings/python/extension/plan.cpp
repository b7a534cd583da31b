// Plan: what fovea_attention_run needs besides the plan itself. A run compares every array's element type, shape and strides
// with what was planned, as the library sees pointers alone; makes the outputs that it was not given; and takes the
// workspace of the last run, or one of its own where another thread has that.
#include "plan.hpp"

#include <array>
#include <cstdlib>
#include <cstring>

#include "errors.hpp"
#include "made.hpp"
#include "view.hpp"

namespace fovea_python {
namespace {

const Buffer *buffer_table = nullptr;
int buffer_count = 0;

constexpr int most_buffers = 32;

struct Entry {
  const Buffer *buffer;
  PyObject *name;
  fovea_tensor planned;
  PyObject *kept;               // an array that runs take if they are given no other
  PyObject *maker, *arguments;  // an output's
  const DlExchange *exchange;   // the quicker way to make it, or nullptr
};

struct Plan {
  PyObject_HEAD Handle *handle;
  Entry *entries;
  int count;
  void *workspace;  // nullptr while a run has it
  size_t workspace_size;
};

void plan_free(PyObject *self) {
  auto *plan = reinterpret_cast<Plan *>(self);
  PyTypeObject *type = Py_TYPE(self);
  for (int n = 0; n < plan->count; ++n) {
    Py_XDECREF(plan->entries[n].name);
    Py_XDECREF(plan->entries[n].kept);
    Py_XDECREF(plan->entries[n].maker);
    Py_XDECREF(plan->entries[n].arguments);
  }
  std::free(plan->entries);
  std::free(plan->workspace);
  Py_XDECREF(reinterpret_cast<PyObject *>(plan->handle));
  PyObject_Free(self);
  Py_DECREF(type);
}

bool read_maker(Entry &entry, PyObject *makers) {
  PyObject *maker = PyDict_GetItemWithError(makers, entry.name);
  if (maker == nullptr) return PyErr_Occurred() == nullptr;
  if (PyArg_ParseTuple(maker, "OO!", &entry.maker, &PyTuple_Type, &entry.arguments) == 0) {
    entry.maker = entry.arguments = nullptr;
    return false;
  }
  Py_INCREF(entry.maker);
  Py_INCREF(entry.arguments);
  entry.exchange = exchange_for(entry.maker, entry.arguments, entry.planned);
  return PyErr_Occurred() == nullptr;
}

// (name, array, whether runs take this very array)
bool read_entry(Plan &plan, PyObject *given, PyObject *makers) {
  const char *name = nullptr;
  PyObject *array = nullptr;
  int keep = 0;
  if (PyArg_ParseTuple(given, "sOp", &name, &array, &keep) == 0) return false;
  Entry &entry = plan.entries[plan.count];
  std::memset(&entry, 0, sizeof entry);
  for (int n = 0; n < buffer_count; ++n) {
    if (std::strcmp(buffer_table[n].name, name) == 0) entry.buffer = &buffer_table[n];
  }
  if (entry.buffer == nullptr) {
    PyErr_Format(PyExc_TypeError, "a plan has no %s", name);
    return false;
  }
  View view;
  if (!view.open(array, name, entry.buffer->output)) return false;
  entry.planned = view.tensor;
  entry.name = PyUnicode_InternFromString(name);
  ++plan.count;
  if (keep != 0) {
    Py_INCREF(array);
    entry.kept = array;
  }
  return entry.name != nullptr && read_maker(entry, makers);
}

PyObject *plan_new(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *handle = nullptr;
  PyObject *given = nullptr;
  PyObject *makers = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O!O!", handle_type, &handle, &PyList_Type, &given, &PyDict_Type, &makers) == 0) {
    return nullptr;
  }
  auto *plan = PyObject_New(Plan, type);
  if (plan == nullptr) return nullptr;
  Reference owner(reinterpret_cast<PyObject *>(plan));
  Py_INCREF(handle);
  plan->handle = reinterpret_cast<Handle *>(handle);
  plan->count = 0;
  plan->workspace_size = fovea_plan_workspace_size(static_cast<fovea_plan *>(plan->handle->pointer));
  plan->workspace = std::malloc(plan->workspace_size + 1);
  plan->entries = static_cast<Entry *>(std::malloc(most_buffers * sizeof(Entry)));
  if (plan->workspace == nullptr || plan->entries == nullptr) return PyErr_NoMemory();
  for (Py_ssize_t n = 0; n < PyList_Size(given) && n < most_buffers; ++n) {
    if (!read_entry(*plan, PyList_GetItem(given, n), makers)) return nullptr;
  }
  return owner.release();
}

PyObject *text_of(const fovea_tensor &tensor, const int64_t *numbers) {
  const Reference list(PyTuple_New(tensor.rank));
  for (int axis = 0; list && axis < tensor.rank; ++axis) {
    PyTuple_SetItem(list.get(), axis, PyLong_FromLongLong(numbers[axis]));
  }
  return list ? PyObject_Str(list.get()) : nullptr;
}

bool differ(const Entry &entry, const fovea_tensor &given, fovea_status status, const char *what,
            const int64_t *planned, const int64_t *now) {
  const Reference wanted(text_of(entry.planned, planned));
  const Reference got(text_of(given, now));
  const Reference text(wanted && got ? PyUnicode_FromFormat("%s %U, planned with %U", what, got.get(), wanted.get())
                                     : nullptr);
  const Reference bytes(text ? PyUnicode_AsUTF8String(text.get()) : nullptr);
  if (bytes) raise_status(status, entry.buffer->name, PyBytes_AsString(bytes.get()));
  return false;
}

// Whether a run may take this view. A stride that is never stepped along may be anything.
bool as_planned(const Entry &entry, const fovea_tensor &given) {
  const fovea_tensor &planned = entry.planned;
  if (given.dtype != planned.dtype) {
    raise_status(FOVEA_BAD_DTYPE, entry.buffer->name, "not the element type it was planned with");
    return false;
  }
  if (given.rank != planned.rank || std::memcmp(given.shape, planned.shape, static_cast<size_t>(given.rank) * 8) != 0) {
    return differ(entry, given, FOVEA_BAD_SHAPE, "shape", planned.shape, given.shape);
  }
  for (int axis = 0; axis < given.rank; ++axis) {
    if (given.strides[axis] != planned.strides[axis] && given.shape[axis] > 1) {
      return differ(entry, given, FOVEA_BAD_STRIDE, "strides", planned.strides, given.strides);
    }
  }
  return true;
}

// One run's arrays, borrowed but for the outputs that were made.
struct Run {
  std::array<PyObject *, most_buffers> arrays{};
  std::array<PyObject *, most_buffers> made{};
  ~Run() {
    for (PyObject *object : made) Py_XDECREF(object);
  }
};

bool take_positional(const Plan &plan, PyObject *arguments, Run &run) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  Py_ssize_t taken = 0;
  for (int n = 0; n < plan.count && taken < count; ++n) {
    if (!plan.entries[n].buffer->output) run.arrays[n] = PyTuple_GetItem(arguments, taken++);
    if (taken == 3) break;
  }
  if (taken == count) return true;
  PyErr_Format(PyExc_TypeError, "a run of this plan takes at most 3 arrays without names, not %zd", count);
  return false;
}

bool take_named(const Plan &plan, PyObject *named, Run &run) {
  Py_ssize_t at = 0;
  PyObject *key = nullptr;
  PyObject *value = nullptr;
  while (named != nullptr && PyDict_Next(named, &at, &key, &value) != 0) {
    int found = -1;
    for (int n = 0; n < plan.count && found < 0; ++n) {
      if (PyUnicode_Compare(plan.entries[n].name, key) == 0) found = n;
    }
    if (found < 0) {
      PyErr_Format(PyExc_TypeError, "%U was not planned", key);
      return false;
    }
    if (value != Py_None) run.arrays[found] = value;
  }
  return true;
}

void set_buffer(const Entry &entry, void *data, fovea_attention_buffers &buffers) {
  std::memcpy(reinterpret_cast<char *>(&buffers) + entry.buffer->offset, &data, sizeof data);
}

bool fill_buffers(const Plan &plan, Run &run, View *views, fovea_attention_buffers &buffers) {
  for (int n = 0; n < plan.count; ++n) {
    const Entry &entry = plan.entries[n];
    PyObject *&array = run.arrays[n];
    if (array == nullptr) array = entry.kept;
    if (array == nullptr && entry.exchange != nullptr) {
      void *data = nullptr;
      array = run.made[n] = make_array(*entry.exchange, entry.planned, &data);
      if (array == nullptr) return false;
      set_buffer(entry, data, buffers);
      continue;
    }
    if (array == nullptr && entry.maker != nullptr) {
      array = run.made[n] = PyObject_CallObject(entry.maker, entry.arguments);
      if (array == nullptr) return false;
    }
    if (array == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s is missing", entry.buffer->name);
      return false;
    }
    if (!views[n].open(array, entry.buffer->name, entry.buffer->output)) return false;
    if (!as_planned(entry, views[n].tensor)) return false;
    set_buffer(entry, views[n].tensor.data, buffers);
  }
  return true;
}

bool execute(Plan &plan, const fovea_attention_buffers &buffers) {
  void *workspace = plan.workspace;
  plan.workspace = nullptr;
  if (workspace == nullptr) workspace = std::malloc(plan.workspace_size + 1);
  if (workspace == nullptr) return PyErr_NoMemory() != nullptr;
  const bool free_to_use = start_use(plan.handle, false);
  fovea_status status = FOVEA_OK;
  if (free_to_use) {
    Py_BEGIN_ALLOW_THREADS;
    status =
        fovea_attention_run(static_cast<fovea_plan *>(plan.handle->pointer), &buffers, workspace, plan.workspace_size);
    Py_END_ALLOW_THREADS;
    end_use(plan.handle, false);
  }
  if (plan.workspace == nullptr) {
    plan.workspace = workspace;
  } else {
    std::free(workspace);
  }
  if (status != FOVEA_OK) raise_status(status);
  return free_to_use && status == FOVEA_OK;
}

// The outputs: out alone, or all of them in the order they were planned in.
PyObject *outputs(const Plan &plan, const Run &run) {
  Py_ssize_t count = 0;
  PyObject *first = nullptr;
  for (int n = 0; n < plan.count; ++n) {
    if (plan.entries[n].buffer->output && count++ == 0) first = run.arrays[n];
  }
  if (count == 1) {
    Py_INCREF(first);
    return first;
  }
  PyObject *tuple = PyTuple_New(count);
  count = 0;
  for (int n = 0; tuple != nullptr && n < plan.count; ++n) {
    if (!plan.entries[n].buffer->output) continue;
    Py_INCREF(run.arrays[n]);
    PyTuple_SetItem(tuple, count++, run.arrays[n]);
  }
  return tuple;
}

PyObject *plan_call(PyObject *self, PyObject *arguments, PyObject *named) {
  auto &plan = *reinterpret_cast<Plan *>(self);
  Run run;
  View views[most_buffers];
  fovea_attention_buffers buffers{};
  buffers.struct_size = sizeof buffers;
  if (!take_positional(plan, arguments, run) || !take_named(plan, named, run)) return nullptr;
  if (!fill_buffers(plan, run, views, buffers) || !execute(plan, buffers)) return nullptr;
  return outputs(plan, run);
}

const fovea_plan *plan_of(PyObject *self) {
  return static_cast<fovea_plan *>(reinterpret_cast<Plan *>(self)->handle->pointer);
}

PyObject *plan_text(PyObject *self, PyObject *) {
  char text[512];
  fovea_plan_describe(plan_of(self), text, sizeof text);
  return PyUnicode_FromString(text);
}

PyObject *plan_bytes(PyObject *self, void *) { return PyLong_FromSize_t(fovea_plan_workspace_size(plan_of(self))); }

}  // namespace

bool add_plan_type(PyObject *module, const Buffer *buffers, int count) {
  buffer_table = buffers;
  buffer_count = count;
  static PyGetSetDef attributes[] = {
      {"workspace_size", plan_bytes, nullptr, "Bytes of scratch memory a run needs.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyMethodDef methods[] = {
      {"describe", plan_text, METH_NOARGS, "One line: instruction set, path, tiles, tasks, threads, bytes."},
      {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void *>(plan_new)},
      {Py_tp_dealloc, reinterpret_cast<void *>(plan_free)},
      {Py_tp_call, reinterpret_cast<void *>(plan_call)},
      {Py_tp_getset, attributes},
      {Py_tp_methods, methods},
      {Py_tp_doc,
       const_cast<char *>("A checked call of attention with everything but the data decided; see fovea.plan.")},
      {0, nullptr}};
  static PyType_Spec spec = {"fovea._fovea.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, slots};
  const Reference type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "Plan", type.get()) == 0;
}

}  // namespace fovea_python
