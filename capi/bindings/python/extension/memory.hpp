// Memory of the library's that Python reads and writes where it lies: the pages of a pool. It speaks the buffer
// protocol, and the extension's views take it as it is, of any element type.
#pragma once

#include "python.hpp"

namespace fovea_python {

extern PyTypeObject *memory_type;
bool add_memory_type(PyObject *module);

// Over the tensor's own memory, which lives as long as `owner` (borrowed).
PyObject *new_memory(const fovea_tensor &tensor, PyObject *owner);

// A copy of a contiguous tensor, not to be written to.
PyObject *copied_memory(const fovea_tensor &tensor);

// None for a tensor of rank -1, else one of the two above: a copy where there is no owner.
PyObject *memory_or_none(const fovea_tensor &tensor, PyObject *owner);

// layout(dtype, shape): a contiguous tensor without data, for what only reads layouts.
PyObject *layout(PyObject *module, PyObject *arguments);

const fovea_tensor &tensor_of_memory(PyObject *memory);
bool is_read_only(PyObject *memory);

}  // namespace fovea_python
