// Plan: what fovea_attention_run needs besides the plan itself. A run compares every array's element type, shape and
// strides with those of the call that was planned, which the plan's handle has kept, as the library sees pointers
// alone; makes the outputs that it was not given; and takes the workspace of the last run, or one of its own where
// another thread has that.
#include "plan.hpp"

#include <array>
#include <cstdlib>
#include <cstring>

#include "errors.hpp"
#include "made.hpp"
#include "planned.hpp"

namespace fovea_python {
namespace {

const Buffer *buffer_table = nullptr;
int buffer_count = 0;

struct Entry {
  const Buffer *buffer;
  PyObject *name;
  fovea_tensor planned;
  bool output;
  PyObject *kept;               // an array that runs take if they are given no other
  PyObject *maker, *arguments;  // an output's
  const DlExchange *exchange;   // the quicker way to make it, or nullptr
};

struct Plan {
  PyObject_HEAD Handle *handle;
  PyObject *convert;  // (list, name): a list as an array
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
  Py_XDECREF(plan->convert);
  std::free(plan->entries);
  std::free(plan->workspace);
  Py_XDECREF(reinterpret_cast<PyObject *>(plan->handle));
  PyObject_Free(self);
  Py_DECREF(type);
}

// How an output is made: (callable, arguments).
bool read_maker(Entry &entry, PyObject *makers) {
  PyObject *maker = PyDict_GetItemWithError(makers, entry.name);
  if (maker == nullptr) return PyErr_Occurred() == nullptr;
  if (PyTuple_Check(maker) == 0 || PyTuple_Size(maker) != 2 || PyTuple_Check(PyTuple_GetItem(maker, 1)) == 0) {
    PyErr_Format(PyExc_TypeError, "%s: a callable and a tuple of its arguments are wanted", entry.buffer->name);
    return false;
  }
  entry.maker = Py_NewRef(PyTuple_GetItem(maker, 0));
  entry.arguments = Py_NewRef(PyTuple_GetItem(maker, 1));
  entry.exchange = exchange_for(entry.maker, entry.arguments, entry.planned);
  return PyErr_Occurred() == nullptr;
}

bool read_entry(Plan &plan, const PlannedTensor &planned, PyObject *kept, PyObject *makers) {
  Entry &entry = plan.entries[plan.count];
  std::memset(&entry, 0, sizeof entry);
  entry.buffer = &buffer_table[planned.buffer];
  entry.planned = planned.tensor;
  entry.output = planned.output;
  ++plan.count;
  entry.name = PyUnicode_InternFromString(entry.buffer->name);
  if (entry.name == nullptr) return false;
  PyObject *array = PyDict_GetItemWithError(kept, entry.name);
  if (PyErr_Occurred() != nullptr) return false;
  entry.kept = Py_XNewRef(array);
  return !entry.output || read_maker(entry, makers);
}

struct Given {
  Handle *handle;
  PyObject *kept, *makers, *convert;  // borrowed
};

bool read_arguments(PyObject *arguments, Given &read) {
  PyObject *given = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O!O!O:Plan", handle_type, &given, &PyDict_Type, &read.kept, &PyDict_Type,
                       &read.makers, &read.convert) == 0) {
    return false;
  }
  Handle *handle = read.handle = reinterpret_cast<Handle *>(given);
  if (std::strcmp(handle->kind->name, "fovea_plan") == 0) return true;
  PyErr_Format(PyExc_TypeError, "Plan: a handle of a plan is wanted, not %R", given);
  return false;
}

PyObject *plan_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  Given given;
  if (named != nullptr && PyDict_Size(named) > 0) {
    PyErr_SetString(PyExc_TypeError, "Plan takes no names; fovea.plan makes one");
    return nullptr;
  }
  if (!read_arguments(arguments, given)) return nullptr;
  auto *plan = PyObject_New(Plan, type);
  if (plan == nullptr) return nullptr;
  Reference owner(reinterpret_cast<PyObject *>(plan));
  const Handle *handle = plan->handle = given.handle;
  Py_INCREF(reinterpret_cast<PyObject *>(given.handle));
  plan->convert = Py_NewRef(given.convert);
  plan->count = 0;
  plan->workspace_size = fovea_plan_workspace_size(static_cast<fovea_plan *>(handle->pointer));
  plan->workspace = std::malloc(plan->workspace_size + 1);
  plan->entries = static_cast<Entry *>(std::malloc(most_buffers * sizeof(Entry)));
  if (plan->workspace == nullptr || plan->entries == nullptr) return PyErr_NoMemory();
  for (int n = 0; n < handle->planned->count; ++n) {
    if (!read_entry(*plan, handle->planned->tensors[n], given.kept, given.makers)) return nullptr;
  }
  return owner.release();
}

// One run's arrays.
struct Run {
  std::array<PyObject *, most_buffers> arrays{};  // owned: reading one may run code that lets go of another
  std::array<bool, most_buffers> is_made{};       // over memory of ours
  ~Run() {
    for (PyObject *object : arrays) Py_XDECREF(object);
  }
  void set(int n, PyObject *array) {
    PyObject *old = arrays[n];
    arrays[n] = Py_NewRef(array);
    Py_XDECREF(old);
  }
};

bool take_positional(const Plan &plan, PyObject *arguments, Run &run) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  Py_ssize_t taken = 0;
  for (int n = 0; n < plan.count && taken < count; ++n) {
    if (!plan.entries[n].output) run.set(n, PyTuple_GetItem(arguments, taken++));
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
    if (PyUnicode_Check(key) == 0) {
      PyErr_Format(PyExc_TypeError, "a run's keywords are str, not %R", key);
      return false;
    }
    for (int n = 0; n < plan.count && found < 0; ++n) {
      if (PyUnicode_Compare(plan.entries[n].name, key) == 0) found = n;
    }
    if (found < 0) {
      PyErr_Format(PyExc_TypeError, "%U was not planned", key);
      return false;
    }
    if (value != Py_None) run.set(found, value);
  }
  return true;
}

constexpr fovea_dtype no_dtype = -1;  // which no plan has
static_assert(Views::most >= most_buffers);

void set_buffer(const Entry &entry, void *data, fovea_attention_buffers &buffers) {
  std::memcpy(reinterpret_cast<char *>(&buffers) + entry.buffer->offset, &data, sizeof data);
}

bool convert_list(const Plan &plan, const Entry &entry, PyObject *&array) {
  if (PyList_Check(array) == 0 && PyTuple_Check(array) == 0) return true;
  ++foreign_code_runs;
  const Reference list(array);
  array = PyObject_CallFunctionObjArgs(plan.convert, list.get(), entry.name, nullptr);
  return array != nullptr;
}

// Makes the outputs that were not given. Before any array is looked at, as others make them.
bool make_outputs(const Plan &plan, Run &run, fovea_attention_buffers &buffers) {
  for (int n = 0; n < plan.count; ++n) {
    const Entry &entry = plan.entries[n];
    PyObject *&array = run.arrays[n];
    if (array == nullptr) array = Py_XNewRef(entry.kept);
    if (array != nullptr || entry.maker == nullptr) continue;
    if (entry.exchange == nullptr) {
      array = PyObject_CallObject(entry.maker, entry.arguments);
    } else {
      void *data = nullptr;
      array = make_array(*entry.exchange, entry.planned, &data);
      set_buffer(entry, data, buffers);
      run.is_made[n] = true;
    }
    if (array == nullptr) return false;
  }
  return true;
}

bool fill_buffers(const Plan &plan, Run &run, Views &views, fovea_attention_buffers &buffers) {
  const unsigned before = foreign_code_runs;
  std::array<const Entry *, most_buffers> entries;
  for (int n = 0; n < plan.count; ++n) {
    const Entry &entry = plan.entries[n];
    PyObject *&array = run.arrays[n];
    if (run.is_made[n]) continue;
    if (array == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s is missing", entry.buffer->name);
      return false;
    }
    if (!entry.output && !convert_list(plan, entry, array)) return false;
    entries[views.count()] = &entry;
    View &view = views.add();
    if (!view.open(array, entry.buffer->name, entry.output, no_dtype)) return false;
    if (!as_planned(entry.buffer->name, entry.planned, view)) return false;
    set_buffer(entry, view.tensor.data, buffers);
  }
  for (size_t n = 0; n < views.count() && foreign_code_runs != before; ++n) {
    if (!views[n].confirm(entries[n]->buffer->name)) return false;
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
    if (plan.entries[n].output && count++ == 0) first = run.arrays[n];
  }
  if (count == 1) {
    Py_INCREF(first);
    return first;
  }
  PyObject *tuple = PyTuple_New(count);
  count = 0;
  for (int n = 0; tuple != nullptr && n < plan.count; ++n) {
    if (!plan.entries[n].output) continue;
    Py_INCREF(run.arrays[n]);
    PyTuple_SetItem(tuple, count++, run.arrays[n]);
  }
  return tuple;
}

PyObject *plan_call(PyObject *self, PyObject *arguments, PyObject *named) {
  auto &plan = *reinterpret_cast<Plan *>(self);
  Run run;
  Views views;
  fovea_attention_buffers buffers{};
  buffers.struct_size = sizeof buffers;
  if (!take_positional(plan, arguments, run) || !take_named(plan, named, run)) return nullptr;
  if (!make_outputs(plan, run, buffers) || !fill_buffers(plan, run, views, buffers)) return nullptr;
  return execute(plan, buffers) ? outputs(plan, run) : nullptr;
}

const fovea_plan *plan_of(PyObject *self) {
  return static_cast<fovea_plan *>(reinterpret_cast<Plan *>(self)->handle->pointer);
}

PyObject *plan_text(PyObject *self, PyObject *) {
  char text[512];
  fovea_plan_describe(plan_of(self), text, sizeof text);
  return PyUnicode_FromString(text);
}

// Nothing of a plan ever changes.
PyObject *plan_copy(PyObject *self, PyObject *) { return Py_NewRef(self); }

PyObject *plan_reduce(PyObject *, PyObject *) {
  PyErr_SetString(PyExc_TypeError,
                  "a Plan cannot be pickled: it is made for this machine's instruction set; call fovea.plan again");
  return nullptr;
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
      {"__copy__", plan_copy, METH_NOARGS, "The plan itself."},
      {"__deepcopy__", plan_copy, METH_O, "The plan itself, with the arrays that it keeps."},
      {"__reduce__", plan_reduce, METH_NOARGS, "Says why a plan cannot be pickled."},
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
  static PyType_Spec spec = {"fovea._fovea.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                             slots};
  const Reference type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "Plan", type.get()) == 0;
}

}  // namespace fovea_python
