// The functions of the C interface as functions of the module, without "fovea_" and as they stand in the header: arrays
// for tensors, dicts for options, None for NULL. An argument that is the call's result is left out; a status becomes an
// exception.
#include "arguments.hpp"
#include "errors.hpp"
#include "frame.hpp"
#include "memory.hpp"
#include "plan.hpp"
#include "runs.hpp"
#include "team.hpp"

#include <cstring>

namespace fovea_python {
namespace {

#include "tables.inc"

constexpr int most_arguments = 12;
constexpr char capsule_name[] = "fovea._fovea function";

// A new handle. Those of plans and of schedules keep the handles that they were made with, and the layouts of their
// tensors.
PyObject *handle_of(void *made, int kind, const Frame &frame) {
  const bool is_planned = kind == plan_kind || kind == schedule_kind || kind == mha_plan_kind;
  if (!is_planned) return new_handle(made, handle_kinds[kind], nullptr, nullptr);
  const Reference keeps(frame.handles_used());
  PlannedTensors *planned = keeps ? frame.planned() : nullptr;
  if (planned != nullptr) return new_handle(made, handle_kinds[kind], keeps.get(), planned);
  handle_kinds[kind].destroy(made);
  return nullptr;
}

// A struct of tensors that the call has filled, as a dict of copies: they are the library's only until its next call.
PyObject *copies_of(const Struct &structure, const void *filled) {
  Reference copies(PyDict_New());
  for (int n = 0; copies && n < structure.count; ++n) {
    const Member &member = structure.members[n];
    const fovea_tensor *tensor = nullptr;
    std::memcpy(&tensor, static_cast<const char *>(filled) + member.offset, sizeof tensor);
    if (tensor == nullptr) continue;
    const Reference copy(copied_memory(*tensor));
    if (!copy || PyDict_SetItemString(copies.get(), member.name, copy.get()) != 0) return nullptr;
  }
  return copies.release();
}

bool is_made(Kind kind) { return kind == Kind::new_handle || kind == Kind::new_i64 || kind == Kind::new_structure; }

// What a status and what the call made become.
PyObject *result_of(const Function &function, const Slot &result, Slot *slots, const Frame &frame) {
  for (int n = 0; n < function.count; ++n) {
    const Member &argument = function.arguments[n];
    if (argument.kind == Kind::new_handle) return handle_of(slots[n].pointer, argument.handle_kind, frame);
    if (argument.kind == Kind::new_i64) return PyLong_FromLongLong(slots[n].i64);
    if (argument.kind == Kind::new_structure) return copies_of(*argument.structure, slots[n].pointer);
  }
  switch (function.result) {
    case Result::status: Py_RETURN_NONE;
    case Result::text:
      if (result.text == nullptr) Py_RETURN_NONE;
      return PyUnicode_FromString(result.text);
    case Result::size: return PyLong_FromSize_t(result.size);
    case Result::i64: return PyLong_FromLongLong(result.i64);
    case Result::i32: return PyLong_FromLong(result.i32);
    case Result::tensor: return memory_or_none(*static_cast<const fovea_tensor *>(result.pointer), frame.owner());
    case Result::copied_tensor: return memory_or_none(*static_cast<const fovea_tensor *>(result.pointer), nullptr);
  }
  return nullptr;
}

PyObject *call(PyObject *self, PyObject *const *given, Py_ssize_t given_count) {
  const auto &function = *static_cast<const Function *>(PyCapsule_GetPointer(self, capsule_name));
  Slot slots[most_arguments];
  Frame frame;
  static PyObject *const nothing = Py_None;
  Py_ssize_t taken = 0;
  for (int n = 0; n < function.count; ++n) {
    const Member &argument = function.arguments[n];
    if (!is_made(argument.kind) && taken == given_count) {
      PyErr_Format(PyExc_TypeError, "%s: %s is missing", function.name, argument.name);
      return nullptr;
    }
    PyObject *value = is_made(argument.kind) ? nothing : given[taken++];
    if (!frame.fill_argument(argument, value, slots[n])) return nullptr;
  }
  if (taken != given_count) {
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", function.name, taken, given_count);
    return nullptr;
  }
  if (!frame.confirm()) return nullptr;
  Slot result;
  fovea_tensor tensor;
  result.pointer = &tensor;
  Py_BEGIN_ALLOW_THREADS;
  function.call(slots, result);
  Py_END_ALLOW_THREADS;
  if (function.result == Result::status && result.status != FOVEA_OK) {
    frame.raise(result.status);
    return nullptr;
  }
  return result_of(function, result, slots, frame);
}

// A Python function's description has to stay where it is.
PyMethodDef methods[sizeof functions / sizeof *functions];

bool add_functions(PyObject *module) {
  int n = 0;
  for (const Function &function : functions) {
    static_assert(sizeof(Function *) == sizeof(void *));
    if (function.count > most_arguments) return false;
    const Reference self(PyCapsule_New(const_cast<Function *>(&function), capsule_name, nullptr));
    methods[n] = {function.name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL,
                  nullptr};
    const Reference callable(self ? PyCFunction_New(&methods[n], self.get()) : nullptr);
    if (!callable || PyModule_AddObjectRef(module, function.name, callable.get()) != 0) return false;
    ++n;
  }
  return true;
}

bool add_constants(PyObject *module) {
  for (const Constant &constant : constants) {
    if (PyModule_AddIntConstant(module, constant.name, constant.value) != 0) return false;
  }
  return true;
}

const char *kind_name(Kind kind) {
  switch (kind) {
    case Kind::tensor: return "tensor";
    case Kind::output: return "output";
    case Kind::structure: return "struct";
    case Kind::handle:
    case Kind::changed_handle: return "handle";
    case Kind::text: return "text";
    default: return "number";
  }
}

PyObject *members_of(const Struct &structure) {
  Reference kinds(PyDict_New());
  for (int n = 0; kinds && n < structure.count; ++n) {
    const Reference kind(PyUnicode_FromString(kind_name(structure.members[n].kind)));
    if (!kind || PyDict_SetItemString(kinds.get(), structure.members[n].name, kind.get()) != 0) return nullptr;
  }
  return kinds.release();
}

// {struct: {member: kind}} of all options, so that Python's functions learn of new ones.
PyObject *members(PyObject *, PyObject *) {
  Reference all(PyDict_New());
  if (!all) return nullptr;
  for (const Struct *structure : structs) {
    const Reference kinds(members_of(*structure));
    if (!kinds || PyDict_SetItemString(all.get(), structure->name, kinds.get()) != 0) return nullptr;
  }
  return all.release();
}

// shape(array, name): as the library sees it.
PyObject *shape(PyObject *, PyObject *arguments) {
  PyObject *array = nullptr;
  const char *name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os:shape", &array, &name) == 0) return nullptr;
  View view;
  if (!view.open(array, name, false, 0)) return nullptr;
  Reference sizes(PyTuple_New(view.tensor.rank));
  for (int axis = 0; sizes && axis < view.tensor.rank; ++axis) {
    PyObject *size = PyLong_FromLongLong(view.tensor.shape[axis]);
    if (size == nullptr || PyTuple_SetItem(sizes.get(), axis, size) != 0) return nullptr;
  }
  return sizes.release();
}

int set_up(PyObject *module) {
  constexpr int buffer_count = sizeof plan_buffers / sizeof *plan_buffers;
  static_assert(buffer_count <= most_buffers);
  if (!find_numpy() || !add_handle_type(module) || !add_memory_type(module)) return -1;
  if (!add_plan_type(module, plan_buffers, buffer_count)) return -1;
  if (!add_arguments_type(module, laid_out_structs, sizeof laid_out_structs / sizeof *laid_out_structs)) return -1;
  set_run_buffers(plan_buffers);
  return add_functions(module) && add_constants(module) ? 0 : -1;
}

PyMethodDef own_methods[] = {
    {"set_errors", set_errors, METH_VARARGS, "set_errors(classes, other): the exception of each status"},
    {"shape", shape, METH_VARARGS, "shape(array, name): the shape of anything that is an array"},
    {"layout", layout, METH_VARARGS, "layout(dtype, shape): a contiguous tensor without data"},
    {"schedule_run", schedule_run, METH_VARARGS, "schedule_run(schedule, {buffer: array}): a run of the present step"},
    {"mha_run", mha_run, METH_VARARGS,
     "mha_run(plan, {buffer: array}, workspace): a run of planned multi-head attention"},
    {"team_context", team_context, METH_VARARGS,
     "team_context(parallel, threads): a context on the threads of an OpenMP runtime"},
    {"members", members, METH_NOARGS, "members(): {struct: {member: kind}} of all options"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef_Slot module_slots[] = {{Py_mod_exec, reinterpret_cast<void *>(set_up)}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "fovea._fovea",
                          "fovea's C interface.",
                          0,
                          own_methods,
                          module_slots,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

const char *handle_name(int kind) { return handle_kinds[kind].name; }

PyObject *new_context(fovea_context *context) {
  return new_handle(context, handle_kinds[context_kind], nullptr, nullptr);
}

}  // namespace fovea_python

PyMODINIT_FUNC PyInit__fovea() { return PyModuleDef_Init(&fovea_python::definition); }
